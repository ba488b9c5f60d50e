// Common parts of the pages of exchanges and queues: features, bindings, and the preview of a
// declaration.

import {del, get, path, post} from "./api.js";
import {attempt, confirm} from "./dialog.js";
import {code, h, render, tag} from "./dom.js";
import {button, changing, dangerous, field, fields, input, object, objectField, select, valuesOf}
  from "./forms.js";
import {refreshNow} from "./live.js";
import {to} from "./router.js";
import {List} from "./table.js";

// The default exchange's name in the API's paths.
export const DEFAULT = "amq.default";

export const titleOf = (exchange) => exchange || "(default)";

export const exchangeLink = (vhost, name) =>
  h("a", {href: to("exchanges", vhost, name || DEFAULT)}, titleOf(name));

export const queueLink = (vhost, name) => h("a", {href: to("queues", vhost, name)}, name);

// Long names, and RabbitMQ's short forms.
const FLAGS = {durable: ["durable", "D"], auto_delete: ["auto-delete", "AD"],
  internal: ["internal", "I"], exclusive: ["exclusive", "Excl"]};
const SHORT = {"x-message-ttl": "TTL", "x-expires": "Exp", "x-max-length": "Lim",
  "x-max-length-bytes": "Lim B", "x-overflow": "Ovfl", "x-dead-letter-exchange": "DLX",
  "x-dead-letter-routing-key": "DLK", "x-max-priority": "Pri", "x-single-active-consumer": "SAC",
  "x-queue-mode": "Mode", "x-expire-on-time": "On time", "x-delivery-limit": "DlL",
  "x-delayed-retry-type": "DRT", "x-delayed-retry-min": "DRm", "x-delayed-retry-max": "DRM",
  "x-delayed-retry-multiplier": "DRx", "x-message-deduplication": "Dedup",
  "alternate-exchange": "AE"};

// Columns that the feature tags need.
export const FEATURES = [...Object.keys(FLAGS), "arguments", "policy", "operator_policy"];

// Returns {full, short, kind} for each property and policy of an exchange or queue.
function featuresOf(row) {
  const flags = Object.entries(FLAGS).filter(([name]) => row[name])
    .map(([, [full, short]]) => ({full, short}));
  const declared = Object.entries(row.arguments ?? {}).map(([name, value]) => ({
    full: `${name}: ${typeof value === "string" ? value : JSON.stringify(value)}`,
    short: SHORT[name] ?? name}));
  const policies = [["policy", row.policy], ["operator policy", row.operator_policy]]
    .filter(([, name]) => name)
    .map(([what, name]) => ({full: `${what} ${name}`, short: name, kind: "policy"}));
  return [...flags, ...declared, ...policies];
}

export const featureTags = (row) => featuresOf(row).map(({full, kind}) => tag(full, kind));

// For lists: short forms, with the long form as tooltip and for screen readers.
export const shortTags = (row) => featuresOf(row).map(({full, short, kind = ""}) =>
  h("span", {class: `tag ${kind}`.trim(), title: full},
    h("span", {"aria-hidden": "true"}, short), h("span", {class: "unseen"}, full)));

// Bindings

export const bindingKey = (row) =>
  [row.source, row.destination_type, row.destination, row.properties_key].join("\n");

export function bindingList(id, where) {
  return new List({
    id, caption: "Bindings", small: true, load: () => get(where), empty: "No bindings.",
    key: bindingKey,
    columns: bindingColumns(),
  });
}

export function bindingColumns() {
  const destination = ({vhost, destination_type: kind, destination: name}) =>
    (kind === "queue" ? queueLink(vhost, name) : exchangeLink(vhost, name));
  return [
    {key: "source", title: "From", cell: (row) => exchangeLink(row.vhost, row.source)},
    {key: "destination", title: "To", cell: (row) =>
      [destination(row), h("span", {class: "quiet"}, ` ${row.destination_type}`)]},
    {key: "routing_key", title: "Routing key", cell: (row) => code(row.routing_key)},
    {key: "arguments", title: "Arguments", cell: (row) =>
      (Object.keys(row.arguments ?? {}).length ? code(row.arguments) : "")},
    {key: "unbind", title: "", sortable: false, cell: (row) => row.source
      && dangerous("Unbind", () => unbind(row), {"aria-label": `Unbind ${row.destination} `
        + `from ${row.source} with ${row.routing_key || "no routing key"}`})},
  ];
}

async function unbind(row) {
  const detail = `${row.destination_type} ${row.destination} will no longer receive messages from `
    + `exchange ${row.source} with the routing key '${row.routing_key}'.`;
  if (!await confirm("Remove this binding?", detail, "Unbind")) return;
  const kind = row.destination_type === "queue" ? "q" : "e";
  const where = path("bindings", row.vhost, "e", row.source, kind, row.destination,
    row.properties_key);
  if (await attempt("Unbound", () => del(where))) refreshNow();
}

const bind = (vhost, source, kind, destination, values) =>
  post(path("bindings", vhost, "e", source, kind, destination),
    {routing_key: values.key, arguments: object(values.arguments)});

// From a given exchange to a queue or exchange that the user names.
export function bindFromForm(vhost, source) {
  return changing("Bind", {
    done: () => "Bound", after: refreshNow,
    work: (values) => bind(vhost, source, values.kind, values.destination, values),
  }, fields(field("To", select("kind", [["q", "queue"], ["e", "exchange"]])),
    field("Name", input("destination", {required: true})), field("Routing key", input("key"))),
  objectField("Arguments", "arguments", {"x-match": "all"}));
}

// To a given queue, from an exchange that the user names.
export function bindToForm(vhost, queue) {
  return changing("Bind", {
    done: () => "Bound", after: refreshNow,
    work: (values) => bind(vhost, values.source, "q", queue, values),
  }, fields(field("From exchange", input("source", {required: true})),
    field("Routing key", input("key"))),
  objectField("Arguments", "arguments", {"x-match": "all"}));
}

// Preview

const OUTCOMES = {create: "It would be created.",
  same: "It already exists: nothing would change.",
  conflict: "It would be refused."};

// Adds a button to a form that shows the result of its PUT. bodyOf(values): returns the PUT's body.
export function addPlan(element, kind, bodyOf) {
  const outcome = h("div", {role: "status"});
  const ask = async () => {
    if (!element.reportValidity()) return;
    const values = valuesOf(element);
    await attempt("Preview updated", async () => {
      const plan = await post(`${path(kind, values.vhost, values.name)}/plan`, bodyOf(values));
      render(outcome, planView(plan));
    });
  };
  element.addEventListener("reset", () => render(outcome));
  element.lastChild.append(button("Preview", ask));
  element.lastChild.before(outcome);
  return element;
}

function planView({outcome, reason, differences, policy, effective}) {
  const isBad = outcome === "conflict";
  return [
    h("p", {class: isBad ? "bad" : "good"}, OUTCOMES[outcome], reason && ` ${reason}`),
    differences.length > 0 && h("ul", {}, differences.map(({argument, received, current}) =>
      h("li", {}, `${argument}: requested ${JSON.stringify(received)}, existing `
        + JSON.stringify(current)))),
    policy && h("p", {}, `The policy ${policy} would apply.`),
    Object.keys(effective ?? {}).length > 0 && h("p", {}, "In effect: ", code(effective)),
  ];
}
