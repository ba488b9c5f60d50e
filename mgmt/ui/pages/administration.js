// Common parts of the administration pages: the tabs, who may see them, and a column of buttons
// that delete rows.

import {attempt, confirm} from "../dialog.js";
import {h} from "../dom.js";
import {dangerous} from "../forms.js";
import {refreshNow} from "../live.js";
import {route, to} from "../router.js";
import {mayAdminister, mayMakePolicies, mayMonitor} from "../session.js";

const everybody = () => mayMonitor() || mayMakePolicies();

const TABS = [
  {name: "users", title: "Users", isFor: mayAdminister},
  {name: "vhosts", title: "Virtual hosts", isFor: mayMonitor},
  {name: "policies", title: "Policies", isFor: everybody},
  {name: "operator-policies", title: "Operator policies", isFor: everybody},
  {name: "limits", title: "Limits", isFor: everybody},
  {name: "features", title: "Feature flags", isFor: everybody},
  {name: "mqtt", title: "MQTT", isFor: mayMonitor},
  {name: "shovels", title: "Shovels", isFor: mayMonitor},
  {name: "federation", title: "Federation status", isFor: mayMonitor},
  {name: "federation-upstreams", title: "Federation upstreams", isFor: mayMakePolicies},
  {name: "federation-upstream-sets", title: "Federation upstream sets", isFor: mayMakePolicies},
  {name: "standby", title: "Standby", isFor: mayMonitor},
  {name: "traces", title: "Tracing", isFor: mayAdminister},
  {name: "findings", title: "Findings", isFor: mayAdminister},
  {name: "audit", title: "Audit", isFor: mayMonitor},
];

export const mayUseAdministration = everybody;

const shows = new Map();

// A page below admin/. pattern: such as "users/:name"; its first part is the tab. show(parameters):
// returns {title, lists or refresh, panels, pause_ms}.
export function administration(pattern, show) {
  const tab = pattern.split("/", 1)[0];
  const shown = (parameters) => draw(tab, show, parameters);
  shows.set(pattern, shown);
  route(`admin/${pattern}`, shown);
}

route("admin", () => shows.get(TABS.find((one) => one.isFor())?.name ?? "features")({}));

function draw(tab, show, parameters) {
  if (!TABS.find((one) => one.name === tab).isFor()) {
    return {title: "Access refused",
      element: h("p", {}, "Your user's tags do not permit this page.")};
  }
  const {title, lists = [], refresh, panels, pause_ms} = show(parameters);
  const all = async () => { await Promise.all(lists.map((list) => list.refresh())); };
  return {title, element: h("div", {}, tabs(tab), ...panels), refresh: refresh ?? all, pause_ms};
}

function tabs(chosen) {
  return h("nav", {class: "tabs", "aria-label": "Administration"}, TABS
    .filter((one) => one.isFor())
    .map(({name, title}) => h("a", {href: to("admin", name),
      "aria-current": name === chosen ? "page" : undefined}, title)));
}

export const plainPanel = (caption, ...children) =>
  h("section", {class: "panel", "aria-label": caption}, ...children);

// A column of buttons. label(row), detail(row), work(row): the name of the action, its consequence,
// and the action. done: the notice after it. ask(row): asks the user, if a question with the detail
// is not enough.
export function removal({text = "Delete", label, detail, work, done, ask, may = () => true}) {
  return {key: `do-${text}`, title: "", sortable: false, cell: (row) => may(row)
    && dangerous(text, async () => {
      const isSure = ask ? await ask(row) : await confirm(`${label(row)}?`, detail(row), text);
      if (isSure && await attempt(done, () => work(row))) refreshNow();
    }, {"aria-label": label(row)})};
}
