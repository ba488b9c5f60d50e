// A single queue: messages over time, storage tiers, ages, consumers, bindings, and operations.

import {del, get, path, post} from "../api.js";
import {bars, stacked} from "../bars.js";
import {Chart} from "../chart.js";
import {bindToForm, bindingList, featureTags} from "../declared.js";
import {attempt, confirm} from "../dialog.js";
import {facts, fold, h, panel, render, tag} from "../dom.js";
import {checkbox, dangerous, field, form, input, row} from "../forms.js";
import {bytes, count, duration, plural, rate, time} from "../format.js";
import {refreshNow} from "../live.js";
import {Period} from "../period.js";
import {go, route} from "../router.js";
import {messageRates, queuedMessages} from "../samples.js";
import {consumerList} from "./channels.js";
import {getForm, publishForm} from "./messages.js";
import {stateOfQueue} from "./queues.js";
import {workbench} from "./workbench.js";

// From memory to disk only.
const TIERS = [["alpha", "in memory"], ["beta", "in memory and on disk"],
  ["gamma", "on disk, index in memory"], ["delta", "on disk only"], ["unacked", "unacknowledged"]];

route("queues/:vhost/:name", ({vhost, name}) => {
  const where = path("queues", vhost, name);
  const parts = {about: h("div"), tiers: h("div"), ages: h("div")};
  const consumers = consumerList();
  const messages = new Chart("Queued messages", count);
  const flow = new Chart("Message rates", rate);
  const period = new Period(refreshNow);
  const bindings = bindingList("bindings", `${where}/bindings`);
  const element = h("div", {}, panel("Overview", parts.about), period.element,
    h("div", {class: "grid"}, messages.element, flow.element,
      panel("Storage tiers", parts.tiers), panel("Message age", parts.ages)),
    panel("Consumers", consumers.element), panel("Bindings", bindings.element),
    fold("Add binding to this queue", bindToForm(vhost, name)),
    fold("Publish message", publishForm(vhost, name)), fold("Get messages", getForm(where)),
    panel("Messages and dead letters", workbench(vhost, name)),
    panel("Operations", operations(vhost, name, where)));
  return {title: `Queue ${name}`, element, async refresh() {
    const found = await get(where, period.query("lengths", "msg_rates"));
    render(parts.about, aboutQueue(found));
    messages.draw(queuedMessages(found));
    flow.draw(messageRates(found.message_stats));
    render(parts.tiers, tiersOf(found));
    render(parts.ages, agesOf(found));
    await Promise.all([consumers.show(found.consumer_details), bindings.refresh()]);
  }};
});

function aboutQueue(one) {
  const policy = Object.entries(one.effective_policy_definition ?? {});
  return [
    facts({"Virtual host": one.vhost, Type: one.type, State: stateOfQueue(one),
      Ready: count(one.messages_ready), Unacked: count(one.messages_unacknowledged),
      Total: count(one.messages), Persistent: count(one.messages_persistent),
      "Message bytes": bytes(one.message_bytes), "Process memory": bytes(one.memory), Consumers: count(one.consumers),
      "Idle since": one.idle_since ? time(Date.parse(one.idle_since)) : "–"}),
    h("p", {}, featureTags(one)),
    h("h3", {}, "Effective policy"),
    policy.length
      ? h("p", {}, policy.map(([key, value]) => tag(`${key}: ${JSON.stringify(value)}`)))
      : h("p", {class: "quiet"}, "No policy applies."),
  ];
}

function tiersOf({tiers}) {
  if (!tiers) return h("p", {class: "quiet"}, "Not available.");
  return stacked("Storage tiers", TIERS.map(([name, meaning]) => {
    const {messages = 0, bytes: size} = tiers[name] ?? {};
    return {name, value: messages, colour: `--${name}`,
      text: `${name}, ${meaning}: ${count(messages)} (${bytes(size)})`};
  }));
}

function agesOf(one) {
  const {bounds_ms: bounds = [], counts = [], sum_ms: sum = 0} = one.time_in_queue ?? {};
  const delivered = counts.reduce((total, number) => total + number, 0);
  const label = (place) => {
    if (place < bounds.length) return `up to ${duration(bounds[place])}`;
    return `over ${duration(bounds.at(-1))}`;
  };
  return [
    facts({"Oldest ready message": duration(one.oldest_ready_age_ms),
      "Oldest unacked message": duration(one.oldest_unacked_age_ms),
      "Mean time in queue": delivered ? duration(sum / delivered) : "–"}),
    bars("Time in queue of delivered messages", counts.map((value, place) =>
      ({label: label(place), value, text: count(value)}))),
  ];
}

// Operations that cannot be undone

function operations(vhost, name, where) {
  const move = form("Move messages", async ({destination}) => {
    const detail = `All ready messages of ${name} will be moved to the end of ${destination}.`;
    if (!await confirm("Move all messages?", detail, "Move")) return;
    await attempt(`Messages moved to ${destination}`, () => moved(where, {all: true, destination}));
    refreshNow();
  }, field("To queue", input("destination", {required: true})));
  return h("div", {}, move, row(dangerous("Purge messages", () => purge(name, where)),
    dangerous("Delete this queue", () => remove(vhost, name, where))));
}

async function moved(where, body) {
  const {done, failed} = await post(`${where}/messages/move`, body);
  if (failed.length) {
    throw new Error(`${done} moved, ${plural(failed.length, "message")} not: ${failed[0].reason}`);
  }
}

async function purge(name, where) {
  const {messages_ready: ready} = await get(where, {columns: "messages_ready"});
  const detail = `${plural(ready, "ready message")} in ${name} will be deleted, but no `
    + "unacknowledged ones.";
  if (!await confirm(`Purge ${name}?`, detail, "Purge")) return;
  await attempt("Messages purged", () => del(`${where}/contents`));
  refreshNow();
}

async function remove(vhost, name, where) {
  const unused = checkbox("Only if it has no consumers", "unused");
  const empty = checkbox("Only if it is empty", "empty");
  const {messages} = await get(where, {columns: "messages"});
  const detail = `The queue ${name} in ${vhost}, its bindings and ${plural(messages, "message")} `
    + "in it will be deleted.";
  if (!await confirm(`Delete ${name}?`, detail, "Delete", row(unused, empty))) return;
  const only = {};
  if (unused.querySelector("input").checked) only["if-unused"] = "true";
  if (empty.querySelector("input").checked) only["if-empty"] = "true";
  if (await attempt(`Queue ${name} deleted`, () => del(where, only))) go("queues");
}
