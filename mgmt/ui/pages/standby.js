// The standby: which upstream this cluster follows, how far, and its promotion.

import {del, get, post, put} from "../api.js";
import {attempt, confirm} from "../dialog.js";
import {facts, h, panel, render} from "../dom.js";
import {button, changing, dangerous, field, fields, input, row} from "../forms.js";
import {count, duration, time} from "../format.js";
import {refreshNow} from "../live.js";
import {mayAdminister} from "../session.js";
import {List} from "../table.js";
import {administration} from "./administration.js";

const PATH = "schema-replication";
const GOOD = ["syncing", "promoted", "off"];

administration("standby", () => {
  const state = h("div", {});
  const buttons = h("div", {});
  const kept = leftList("kept", "Kept, as they are in use here", "Nothing is kept.");
  const problems = leftList("problems", "Cannot be declared here", "No problems.");
  const refresh = async () => {
    const found = await get(PATH);
    render(state, facts(factsOf(found)));
    render(buttons, mayAdminister() ? row(actionsFor(found)) : "");
    await Promise.all([kept.show(found), problems.show(found)]);
  };
  return {title: "Standby", refresh, panels: [
    panel("State", state, buttons), panel("Kept objects", kept.element),
    panel("Problems", problems.element),
    ...(mayAdminister() ? [panel("Follow an upstream", setForm())] : []),
  ]};
});

const moment = (seconds) => (seconds === null ? "never" : time(seconds * 1000));

function factsOf({state, reason, node, operating_mode: mode, upstream, syncs, ...found}) {
  const word = h("span", {class: GOOD.includes(state) ? "good" : "bad"}, state);
  const shown = {"Operating mode": mode, State: word};
  if (reason) shown.Reason = reason;
  if (!upstream) return shown;
  return {...shown, Endpoints: upstream.endpoints.join(", "), User: upstream.username,
    "Interval": duration(upstream.interval * 1000), "Followed by node": node,
    "Virtual hosts": upstream.vhosts?.join(", ") ?? "all",
    "Local users": upstream.local_users.join(", ") || "none",
    "Last complete comparison": moment(syncs.last_complete_at),
    "Changes": count(syncs.changes), "Failed syncs": count(syncs.failed),
    "Kept objects": count(found.kept_count), Problems: count(found.problems_count)};
}

// The objects that a sync has left, up to the first hundred.
function leftList(name, caption, empty) {
  let rows = [];
  const list = new List({caption, small: true, load: async () => rows, empty,
    key: (one) => `${one.kind}\n${one.vhost}\n${one.name}`, columns: [
      {key: "kind", title: "Kind"}, {key: "vhost", title: "Virtual host"},
      {key: "name", title: "Name"}, {key: "reason", title: "Reason", wide: true}]});
  return {element: list.element, show: (found) => {
    rows = found[name];
    return list.refresh();
  }};
}

// Each action with its button: what it says when it is done, and what it asks before.
const ACTIONS = {
  restart: {text: "Sync now", done: "A sync begins"},
  disable: {text: "Disable", done: "The upstream is not followed until it is enabled"},
  enable: {text: "Enable", done: "The upstream is followed again"},
  accept: {text: "Accept", done: "Accepted: the upstream is followed", ask:
    "What the upstream lacks is deleted here, but for queues that hold messages or are in use."},
  promote: {text: "Promote", done: "Promoted: this cluster is a standby no more", ask:
    "The upstream is followed no more, for good, and shovels and federation links start. Make "
    + "sure that the upstream has ended, or both run."},
  clear: {text: "Forget the upstream", done: "The upstream is forgotten", ask:
    "The upstream is followed no more, and its endpoints and password are forgotten."},
};
const BY_STATE = {
  off: [], promoted: ["clear"], disabled: ["enable", "promote", "clear"],
  held: ["accept", "restart", "disable", "promote", "clear"],
};

function actionsFor({state}) {
  const names = BY_STATE[state] ?? ["restart", "disable", "promote", "clear"];
  return names.map((name) => {
    const {text, ask} = ACTIONS[name];
    return (ask ? dangerous : button)(text, () => act(name));
  });
}

async function act(name) {
  const {text, done, ask} = ACTIONS[name];
  if (ask && !await confirm(`${text}?`, ask, text)) return;
  await attempt(done, async () => {
    await (name === "clear" ? del(PATH) : post(`${PATH}/${name}`, {}));
    await refreshNow();
  });
}

function setForm() {
  return changing("Follow", {
    done: () => "The upstream is followed", after: refreshNow,
    work: ({endpoints, username, password, interval, vhosts}) => put(PATH, {
      endpoints: listed(endpoints), username, password, interval: Number(interval),
      vhosts: vhosts.trim() ? listed(vhosts) : null}),
  }, h("p", {class: "hint"}, "What this cluster has and the upstream lacks is deleted, but for "
    + "your user, queues that are in use, and virtual hosts that are not followed."),
  fields(field("Endpoints", input("endpoints", {required: true}),
    "of its management, with commas: host:15672 or https://host:15671"),
  field("Username", input("username", {required: true})),
  field("Password", input("password", {required: true, type: "password"})),
  field("Interval", input("interval", {type: "number", min: 1, value: 30}), "seconds"),
  field("Virtual hosts", input("vhosts"), "with commas; empty: all")));
}

const listed = (text) => text.split(",").map((one) => one.trim()).filter(Boolean);
