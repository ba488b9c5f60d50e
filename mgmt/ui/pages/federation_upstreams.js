// Federation upstreams: the brokers from which policies have exchanges and queues get messages.
// They are parameters. Their URIs may have passwords, which are not shown.

import {del, get, path, put} from "../api.js";
import {code, h, panel} from "../dom.js";
import {changing, field, fields, input, nameField, select, vhostField} from "../forms.js";
import {refreshNow} from "../live.js";
import {to} from "../router.js";
import {mayMonitor} from "../session.js";
import {List} from "../table.js";
import {administration, removal} from "./administration.js";
import {ACK_MODES} from "./shovels.js";

const COMPONENT = "federation-upstream";
const PASSWORD = /^([a-z0-9+.-]+:\/\/[^/?#]*?):[^/?#]*@/i;
const PASSPHRASE = /([?&]password=)[^&]*/gi;

const withoutPassword = (uri) =>
  uri.replace(PASSWORD, "$1:[redacted]@").replace(PASSPHRASE, "$1[redacted]");

// The fields of numbers and texts: key of the upstream, title, hint.
const NUMBERS = [
  ["prefetch-count", "Prefetch count", "1000 without one"],
  ["reconnect-delay", "Reconnect delay", "seconds; 5 without one"],
  ["max-hops", "Max hops", "links that a message may pass; 1 without one"],
  ["expires", "Expires",
    "milliseconds; the link's queue upstream is deleted after so long without the link"],
  ["message-ttl", "Message TTL", "milliseconds that messages wait upstream"],
];
const TEXTS = [
  ["exchange", "Exchange", "upstream; empty: the same name"],
  ["queue", "Queue", "upstream; empty: the same name"],
  ["consumer-tag", "Consumer tag", "of the link of a queue"],
];

administration("federation-upstreams", () => {
  const upstreams = new List({
    id: "upstreams", caption: "All upstreams", vhosts: true, empty: "No upstreams.",
    load: (vhost) => get(path("parameters", COMPONENT, ...(vhost ? [vhost] : []))),
    key: (row) => `${row.vhost}\n${row.name}`,
    columns: [
      {key: "name", title: "Name"}, {key: "vhost", title: "Virtual host"},
      {key: "uri", title: "URI", sortable: false, wide: true, cell: (row) =>
        [row.value.uri].flat().map((uri) => h("div", {}, code(withoutPassword(uri))))},
      {key: "value", title: "Settings", sortable: false, wide: true, cell: settings},
      removal({label: (row) => `Delete upstream ${row.name}`, done: "Upstream deleted",
        detail: () => "Its links end. Messages that wait for exchanges here in the queues of the "
          + "links are lost; those in queues of the upstream stay there.",
        work: (row) => del(path("parameters", COMPONENT, row.vhost, row.name))}),
    ],
  });
  return {title: "Federation upstreams", lists: [upstreams],
    panels: [panel("All upstreams", upstreams.element),
      panel("Add a new upstream", explanation(), addForm())]};
});

const settings = (row) => Object.entries(row.value)
  .filter(([key]) => key !== "uri")
  .map(([key, value]) => h("div", {"data-key": key}, code(`${key}: ${JSON.stringify(value)}`)));

function explanation() {
  return h("p", {class: "quiet"}, "An upstream is used by ",
    h("a", {href: to("admin", "policies")}, "policies"), " with ", code("federation-upstream"),
    " and its name, or with ", code("federation-upstream-set"), " and ", code("all"),
    ".", mayMonitor() && [" What its links do is at ",
      h("a", {href: to("admin", "federation")}, "Federation status"), "."]);
}

function addForm() {
  const inputs = (keys, attributes) => keys.map(([key, title, hint]) =>
    field(title, input(key, attributes), hint));
  return changing("Add upstream", {
    done: (values) => `Upstream ${values.name} added`, after: refreshNow,
    work: ({vhost, name, ...values}) =>
      put(path("parameters", COMPONENT, vhost, name), {value: definition(values)}),
  }, fields(vhostField(), nameField(),
    field("URI", input("uri", {required: true}),
      "amqp://user:password@host/vhost; several with spaces, of which one is used"),
    field("Acknowledgements", select("ack-mode", ACK_MODES)),
    field("Trust user ids", select("trust-user-id", [["false", "no"], ["true", "yes"]])),
    ...inputs(NUMBERS, {type: "number", min: 0}), ...inputs(TEXTS)));
}

function definition(values) {
  const uris = values.uri.trim().split(/\s+/);
  const value = {uri: uris.length > 1 ? uris : uris[0], "ack-mode": values["ack-mode"],
    "trust-user-id": values["trust-user-id"] === "true"};
  for (const [key] of NUMBERS) if (values[key]) value[key] = Number(values[key]);
  for (const [key] of TEXTS) if (values[key]) value[key] = values[key];
  return value;
}
