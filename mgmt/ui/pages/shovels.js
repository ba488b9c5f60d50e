// Shovels: what moves messages to other brokers, why one does not run, and adding one.

import {del, get, path, put} from "../api.js";
import {attempt} from "../dialog.js";
import {code, h, panel} from "../dom.js";
import {button, changing, field, fields, input, select, vhostField} from "../forms.js";
import {count} from "../format.js";
import {refreshNow} from "../live.js";
import {mayMakePolicies} from "../session.js";
import {List, vhostOr} from "../table.js";
import {administration, removal} from "./administration.js";

export const ACK_MODES = [["on-confirm", "on confirm: nothing is lost"],
  ["on-publish", "on publish"], ["no-ack", "none"]];
const DELETE_AFTER = [["never", "never"], ["queue-length", "the messages that are there now"]];

administration("shovels", () => {
  const shovels = new List({
    id: "shovels", caption: "All shovels", small: true, vhosts: true,
    load: (vhost) => get(vhostOr("shovels")(vhost)),
    key: (row) => `${row.vhost}\n${row.name}`, empty: "No shovels.",
    columns: [
      {key: "name", title: "Name"},
      {key: "vhost", title: "Virtual host", cell: (row) => row.vhost ?? "(static)"},
      {key: "node", title: "Node"},
      {key: "state", title: "State", cell: (row) =>
        h("span", {class: row.state === "terminated" ? "bad" : "good"}, row.state)},
      {key: "src_uri", title: "Source", cell: (row) => end(row, "src")},
      {key: "dest_uri", title: "Destination", cell: (row) => end(row, "dest")},
      {key: "forwarded", title: "Published", number: true, cell: (row) =>
        (row.forwarded === undefined ? "" : count(row.forwarded))},
      {key: "reason", title: "Reason", wide: true, cell: (row) => row.reason ?? ""},
      {key: "timestamp", title: "Since"},
      ...(mayMakePolicies() ? [restarting(), removal({label: (row) => `Delete shovel ${row.name}`,
        may: isDynamic, done: "Shovel deleted",
        detail: () => "Messages that it has not moved stay where they are.",
        work: (row) => del(place(row))})] : []),
    ],
  });
  return {title: "Shovels", lists: [shovels],
    panels: [panel("All shovels", shovels.element),
      ...(mayMakePolicies() ? [panel("Add a new shovel", addForm())] : [])]};
});

// A static shovel is in the configuration of nodes, and nothing can be done with it here.
const isDynamic = (row) => row.vhost !== undefined;
const place = (row) => path("shovels", "vhost", row.vhost, row.name);

function end(row, side) {
  if (row[`${side}_uri`] === undefined) return "";
  const queue = row[`${side}_queue`];
  const exchange = row[`${side}_exchange`];
  const what = queue !== undefined ? `queue ${queue}`
    : exchange !== undefined ? `exchange ${exchange}` : "";
  return h("span", {}, code(row[`${side}_uri`]), " ", what);
}

function restarting() {
  return {key: "restart", title: "", sortable: false, cell: (row) => isDynamic(row)
    && button("Restart", () => attempt(`Shovel ${row.name} restarted`, async () => {
      await del(`${place(row)}/restart`);
      await refreshNow();
    }), {"aria-label": `Restart shovel ${row.name}`})};
}

function addForm() {
  return changing("Add shovel", {
    done: (values) => `Shovel ${values.name} added`, after: refreshNow,
    work: ({vhost, name, ...values}) =>
      put(path("parameters", "shovel", vhost, name), {value: definition(values)}),
  }, fields(vhostField(), field("Name", input("name", {required: true})),
    field("Source URI", input("from", {required: true, value: "amqp://"}),
      "amqp:// is this node, amqp:///vhost another virtual host of it"),
    field("Source queue", input("queue", {required: true})),
    field("Destination URI", input("to", {required: true}), "amqp://user:password@host"),
    field("Destination queue", input("target"), "empty: the exchange and key of each message"),
    field("Acknowledgements", select("ack", ACK_MODES)),
    field("Prefetch count", input("prefetch", {type: "number", min: 0, value: 1000})),
    field("Delete after", select("after", DELETE_AFTER))));
}

function definition({from, queue, to, target, ack, prefetch, after}) {
  const value = {"src-uri": from, "src-queue": queue, "dest-uri": to, "ack-mode": ack,
    "src-prefetch-count": Number(prefetch), "src-delete-after": after};
  return target ? {...value, "dest-queue": target} : value;
}
