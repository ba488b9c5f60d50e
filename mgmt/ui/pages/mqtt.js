// MQTT: the queues of sessions, and retained messages.

import {del, get, path} from "../api.js";
import {open} from "../dialog.js";
import {code, h, panel} from "../dom.js";
import {button} from "../forms.js";
import {bytes, count, time} from "../format.js";
import {to} from "../router.js";
import {mayAdminister} from "../session.js";
import {List, vhostOr} from "../table.js";
import {administration, removal} from "./administration.js";

const SESSION = /^mqtt-subscription-(.*)qos([01])$/;
const SHOWN_MAX = 500;

administration("mqtt", () => {
  const sessions = new List({
    id: "sessions", caption: "Queues of sessions", small: true, vhosts: true, load: loadSessions,
    key: (row) => `${row.vhost}\n${row.name}`, empty: "No sessions.",
    columns: [
      {key: "client", title: "Client identifier", wide: true},
      {key: "qos", title: "QoS"}, {key: "vhost", title: "Virtual host"},
      {key: "name", title: "Queue", cell: (row) =>
        h("a", {href: to("queues", row.vhost, row.name)}, row.name)},
      {key: "consumers", title: "Connected", cell: (row) => (row.consumers ? "yes" : "no")},
      {key: "messages", title: "Messages", number: true, cell: (row) => count(row.messages)},
    ],
  });
  const retained = new List({
    id: "retained", caption: "Retained messages", small: true, vhosts: true, load: loadRetained,
    key: (row) => `${row.vhost}\n${row.topic}`, empty: "No retained messages.",
    columns: [
      {key: "topic", title: "Topic", wide: true}, {key: "vhost", title: "Virtual host"},
      {key: "qos", title: "QoS"},
      {key: "payload_bytes", title: "Payload", number: true,
        cell: (row) => bytes(row.payload_bytes)},
      {key: "expires_at", title: "Expires", cell: (row) =>
        (row.expires_at ? time(row.expires_at * 1000) : "never")},
      {key: "show", title: "", sortable: false, cell: (row) => button("Show",
        () => show(row), {"aria-label": `Show ${row.topic}`})},
      removal({label: (row) => `Remove ${row.topic}`, text: "Remove",
        detail: () => "It is removed on all nodes. New subscribers do not get it any more.",
        done: "Retained message removed", work: (row) => del(addressOf(row))}),
    ],
  });
  const isFull = mayAdminister();
  return {title: "MQTT", lists: isFull ? [sessions, retained] : [sessions],
    panels: [panel("Queues of sessions", sessions.element),
      ...(isFull ? [panel("Retained messages", retained.element)] : [])]};
});

const addressOf = ({vhost, topic}) => path("mqtt", "retained", vhost, topic);

async function loadSessions(vhost) {
  const {items} = await get(vhostOr("queues")(vhost),
    {name: SESSION.source, use_regex: true, page: 1, page_size: SHOWN_MAX});
  return items.map((row) => {
    const [, client, qos] = SESSION.exec(row.name);
    return {...row, client, qos};
  });
}

async function loadRetained(vhost) {
  const names = vhost ? [vhost] : (await get("vhosts")).map(({name}) => name);
  const found = await Promise.all(names.map((name) =>
    get(path("mqtt", "retained", name), {count: SHOWN_MAX})));
  return found.flatMap(({items}) => items);
}

async function show(row) {
  const {payload, payload_encoding: encoding} = await get(addressOf(row));
  const dialog = open(`Retained message of ${row.topic}`,
    h("p", {}, encoding === "base64" ? "The payload in base64:" : "The payload:"), code(payload),
    h("div", {class: "row"}, button("Close", () => dialog.close())));
}
