// A single exchange: rates, bindings, publishing, and deletion.

import {del, get, path, post} from "../api.js";
import {Chart} from "../chart.js";
import {DEFAULT, bindFromForm, bindingList, featureTags, titleOf} from "../declared.js";
import {attempt, confirm, notice} from "../dialog.js";
import {facts, fold, h, panel, render} from "../dom.js";
import {checkbox, dangerous, field, form, input, messageFields, messageOf} from "../forms.js";
import {count, details, identifiers, json, rate} from "../format.js";
import {refreshNow} from "../live.js";
import {Period} from "../period.js";
import {go, route} from "../router.js";
import {rates} from "../samples.js";
import {Delayed} from "./delayed.js";

route("exchanges/:vhost/:name", ({vhost, name}) => {
  const shown = name === DEFAULT ? "" : name;
  const where = path("exchanges", vhost, name);
  const about = h("div");
  const flow = new Chart("Message rates", rate);
  const period = new Period(refreshNow);
  const outgoing = bindingList("from", `${where}/bindings/source`);
  const incoming = bindingList("to", `${where}/bindings/destination`);
  const delayed = new Delayed(where);
  const delayedPanel = panel("Delayed messages", delayed.element);
  const isOwn = shown && !shown.startsWith("amq.");
  const element = h("div", {},
    panel("Overview", about, isOwn
      ? dangerous("Delete this exchange", () => remove(vhost, shown, where)) : ""),
    period.element, h("div", {class: "grid"}, flow.element),
    panel("Bindings from this exchange", shown ? outgoing.element : everyQueue()),
    shown ? fold("Add binding from this exchange", bindFromForm(vhost, shown)) : "",
    shown ? panel("Bindings to this exchange", incoming.element) : "",
    delayedPanel,
    fold("Publish message", publishForm(where)));
  return {title: `Exchange ${titleOf(shown)}`, element, async refresh() {
    const row = await get(where, period.query("msg_rates"));
    render(about, aboutExchange(row));
    const stats = row.message_stats;
    flow.draw({"Publish (in)": rates(stats, "publish_in"),
      "Publish (out)": rates(stats, "publish_out")});
    delayedPanel.hidden = row.messages_delayed === undefined;
    if (!delayedPanel.hidden) await delayed.refresh();
    if (shown) await Promise.all([outgoing.refresh(), incoming.refresh()]);
  }};
});

const everyQueue = () => h("p", {}, "The default exchange routes to the queue named by the routing "
  + "key; it has no other bindings.");

function aboutExchange(row) {
  const policy = row.effective_policy_definition ?? {};
  return [facts({"Virtual host": row.vhost, Type: row.type,
    "Message rate in": details(row.message_stats, "publish_in"),
    "Message rate out": details(row.message_stats, "publish_out"),
    ...row.messages_delayed === undefined ? {} : {"Delayed messages": row.messages_delayed},
    ...row.cache_info === undefined ? {} : {"Duplicates refused": count(row.messages_duplicate),
      "Identifiers known": identifiers(row.cache_info)}}),
  h("p", {}, featureTags(row)),
  Object.keys(policy).length > 0 && [h("h3", {}, "Effective policy"), h("pre", {}, json(policy))]];
}

function publishForm(where) {
  return form("Publish message", async (values) => {
    const message = {routing_key: values.key, ...messageOf(values)};
    const {routed} = await post(`${where}/publish`, message);
    if (routed) notice("Message published");
    else notice("Message published, but not routed: no binding matches", true);
    refreshNow();
  }, field("Routing key", input("key")), messageFields());
}

async function remove(vhost, name, where) {
  const unused = checkbox("Only if it has no bindings", "unused");
  const detail = `The exchange ${name} in ${vhost} and all its bindings will be deleted.`;
  if (!await confirm(`Delete ${name}?`, detail, "Delete", unused)) return;
  const only = unused.querySelector("input").checked ? {"if-unused": "true"} : {};
  if (await attempt(`Exchange ${name} deleted`, () => del(where, only))) go("exchanges");
}
