// A single exchange: rates, bindings, publishing, and deletion.

import {del, get, path, post} from "../api.js";
import {Chart, Period, rates} from "../chart.js";
import {DEFAULT, bindFromForm, bindingList, featureTags, titleOf} from "../declared.js";
import {attempt, confirm, notice} from "../dialog.js";
import {facts, fold, h, panel, render} from "../dom.js";
import {checkbox, dangerous, field, form, input, messageFields, messageOf} from "../forms.js";
import {details, json, rate} from "../format.js";
import {refreshNow} from "../live.js";
import {go, route} from "../router.js";

route("exchanges/:vhost/:name", ({vhost, name}) => {
  const shown = name === DEFAULT ? "" : name;
  const where = path("exchanges", vhost, name);
  const about = h("div");
  const flow = new Chart("Message rates", rate);
  const period = new Period(refreshNow);
  const outgoing = bindingList("from", vhost, `${where}/bindings/source`);
  const incoming = bindingList("to", vhost, `${where}/bindings/destination`);
  const isOwn = shown && !shown.startsWith("amq.");
  const element = h("div", {},
    panel("Exchange", about, isOwn
      ? dangerous("Delete the exchange", () => remove(vhost, shown, where)) : ""),
    period.element, h("div", {class: "grid"}, flow.element),
    panel("Bindings from here", shown ? outgoing.element : everyQueue()),
    shown ? fold("Bind to this exchange", bindFromForm(vhost, shown)) : "",
    shown ? panel("Bindings to here", incoming.element) : "",
    fold("Publish a message", publishForm(where)));
  return {title: `Exchange ${titleOf(shown)}`, element, async refresh() {
    const row = await get(where, period.query("msg_rates"));
    render(about, aboutExchange(row));
    flow.draw({In: rates(row.message_stats?.publish_in_details),
      Out: rates(row.message_stats?.publish_out_details)});
    if (shown) await Promise.all([outgoing.refresh(), incoming.refresh()]);
  }};
});

const everyQueue = () => h("p", {}, "The default exchange routes to the queue named by the routing "
  + "key; it has no other bindings.");

function aboutExchange(row) {
  const policy = row.effective_policy_definition ?? {};
  return [facts({"Virtual host": row.vhost, Type: row.type,
    In: details(row.message_stats, "publish_in"), Out: details(row.message_stats, "publish_out"),
    ...row.messages_delayed === undefined ? {} : {"Messages delayed": row.messages_delayed}}),
  h("p", {}, featureTags(row)),
  Object.keys(policy).length > 0 && [h("h3", {}, "Effective policy"), h("pre", {}, json(policy))]];
}

function publishForm(where) {
  return form("Publish", async (values) => {
    const message = {routing_key: values.key, ...messageOf(values)};
    const {routed} = await post(`${where}/publish`, message);
    if (routed) notice("Published");
    else notice("Published, but not routed: no binding matches", true);
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
