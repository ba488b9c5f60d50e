// Exchanges: the list, one with its bindings, publishing, adding and deleting.

import {del, get, path, post, put} from "./api.js";
import {attempt, confirm} from "./dialog.js";
import {checkbox, field, form, h, input, numbers, panel, replace, select} from "./dom.js";
import {details} from "./format.js";
import {argumentsField, messageFields, nameField, object, vhostChoice} from "./inputs.js";
import {go, route, to} from "./router.js";
import {List} from "./table.js";

const DEFAULT = "amq.default";
const TYPES = ["direct", "fanout", "topic", "headers", "x-consistent-hash", "x-modulus-hash", "x-random", "x-recent-history", "x-delayed-message"];

export const title = (name) => name || "(default)";

export function refreshNow() {
  dispatchEvent(new Event("leveret:refresh"));
}

route("exchanges", () => {
  const list = new List({
    caption: "Exchanges", where: "exchanges", key: (row) => `${row.vhost} ${row.name}`,
    columns: [
      {key: "vhost", title: "Virtual host"},
      {key: "name", title: "Name", cell: (row) => h("a", {href: to("exchanges", row.vhost, row.name || DEFAULT)}, title(row.name))},
      {key: "type", title: "Type"},
      {key: "features", title: "Features", sortable: false, cell: features},
      {key: "in", title: "In", number: true, sortable: false, cell: (row) => details(row.message_stats, "publish_in")},
      {key: "out", title: "Out", number: true, sortable: false, cell: (row) => details(row.message_stats, "publish_out")},
    ],
  });
  const make = form("Add exchange", async (values, element) => {
    const done = await attempt(`Exchange ${values.name} added`, () => put(path("exchanges", values.vhost, values.name), {
      type: values.type, durable: values.durable, auto_delete: values.auto_delete, internal: values.internal,
      arguments: object(values.arguments)}));
    if (done) {
      element.elements.name.value = "";
      list.refresh();
    }
  }, h("div", {class: "fields"}, field("Virtual host", vhostChoice()), nameField(), field("Type", select("type", TYPES))),
  h("div", {class: "row"}, checkbox("Durable", "durable", true), checkbox("Delete when unused", "auto_delete"), checkbox("Internal", "internal")),
  argumentsField());
  return {title: "Exchanges", element: h("div", {}, h("section", {class: "panel"}, list.element), panel("Add an exchange", make)),
    refresh: () => list.refresh()};
});

export function features(row) {
  const tags = [];
  if (row.durable) tags.push("durable");
  if (row.auto_delete) tags.push("auto-delete");
  if (row.internal) tags.push("internal");
  if (row.exclusive) tags.push("exclusive");
  if (row.policy) tags.push(`policy ${row.policy}`);
  if (row.operator_policy) tags.push(`operator policy ${row.operator_policy}`);
  for (const [name, value] of Object.entries(row.arguments ?? {})) tags.push(`${name}: ${JSON.stringify(value)}`);
  return tags.map((text) => h("span", {class: "tag"}, text));
}

route("exchanges/:vhost/:name", ({vhost, name}) => {
  const shown = name === DEFAULT ? "" : name;
  const where = path("exchanges", vhost, name);
  const facts = h("div");
  const bindings = bindingList(`${where}/bindings/source`, vhost);
  const incoming = bindingList(`${where}/bindings/destination`, vhost);
  const publish = form("Publish", async (values) => {
    await attempt("Published", async () => {
      const found = await post(`${where}/publish`, {routing_key: values.key, payload: values.payload,
        payload_encoding: values.encoding, properties: object(values.properties, "The properties")});
      if (!found.routed) throw new Error("no queue got the message: nothing is bound that fits");
    });
    refreshNow();
  }, field("Routing key", input("key")), messageFields());
  const bind = form("Bind", async (values) => {
    const done = await attempt("Bound", () => post(path("bindings", vhost, "e", name, values.kind, values.destination),
      {routing_key: values.key, arguments: object(values.arguments)}));
    if (done) refreshNow();
  }, h("div", {class: "fields"}, field("To", select("kind", [["q", "queue"], ["e", "exchange"]])),
    field("Name", input("destination", {required: true})), field("Routing key", input("key"))), argumentsField());
  const remove = h("button", {type: "button", class: "danger", onclick: async () => {
    if (!await confirm(`Delete ${shown}?`, `The exchange ${shown} in ${vhost} and all its bindings will be gone.`)) return;
    if (await attempt(`Exchange ${shown} deleted`, () => del(where))) go("exchanges");
  }}, "Delete the exchange");
  const isOwn = shown && !shown.startsWith("amq.");
  return {title: `Exchange ${title(shown)}`, element: h("div", {}, panel("Exchange", facts, isOwn ? remove : ""),
    panel("Bindings from here", bindings.element), shown ? panel("Bind to this exchange", bind) : "",
    panel("Bindings to here", incoming.element), panel("Publish a message", publish)), async refresh() {
    const row = await get(where, {msg_rates_age: 60, msg_rates_incr: 5});
    replace(facts, numbers({"Virtual host": vhost, Type: row.type, In: details(row.message_stats, "publish_in"),
      Out: details(row.message_stats, "publish_out")}), h("p", {}, features(row)));
    await bindings.refresh();
    await incoming.refresh();
  }};
});

export function bindingList(where, vhost) {
  return new List({
    caption: "Bindings", load: () => get(where), empty: "There are no bindings.",
    key: (row) => `${row.source} ${row.destination_type} ${row.destination} ${row.properties_key}`,
    columns: [
      {key: "source", title: "From", cell: (row) => h("a", {href: to("exchanges", vhost, row.source || DEFAULT)}, title(row.source))},
      {key: "destination", title: "To", cell: (row) => [h("a", {href: row.destination_type === "queue"
        ? to("queues", vhost, row.destination) : to("exchanges", vhost, row.destination)}, row.destination),
      h("span", {class: "quiet"}, ` ${row.destination_type}`)]},
      {key: "routing_key", title: "Routing key"},
      {key: "arguments", title: "Arguments", sortable: false, cell: (row) => (Object.keys(row.arguments).length ? h("code", {}, JSON.stringify(row.arguments)) : "")},
      {key: "unbind", title: "", sortable: false, cell: (row) => (row.source ? h("button", {type: "button", onclick: () => unbind(row, vhost),
        "aria-label": `Unbind ${row.destination} from ${row.source} with ${row.routing_key || "no key"}`}, "Unbind") : "")},
    ],
  });
}

async function unbind(row, vhost) {
  const kind = row.destination_type === "queue" ? "q" : "e";
  if (!await confirm("Unbind?", `${row.destination} will get nothing more from ${row.source} with '${row.routing_key}'.`, "Unbind")) return;
  if (await attempt("Unbound", () => del(path("bindings", vhost, "e", row.source, kind, row.destination, row.properties_key)))) refreshNow();
}
