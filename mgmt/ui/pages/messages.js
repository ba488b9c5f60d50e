// Publishing to a queue, getting messages, and displaying a message.

import {path, post} from "../api.js";
import {DEFAULT} from "../declared.js";
import {attempt} from "../dialog.js";
import {h, render, tag} from "../dom.js";
import {field, fields, form, input, messageFields, messageOf, select} from "../forms.js";
import {bytes, json} from "../format.js";
import {refreshNow} from "../live.js";

const TRUNCATE_BYTES = 50_000;
const ACK_MODES = [["ack_requeue_true", "Nack message requeue true"],
  ["ack_requeue_false", "Automatic ack"], ["reject_requeue_true", "Reject requeue true"],
  ["reject_requeue_false", "Reject requeue false (dead-letters or drops)"]];

const ENCODINGS = [["auto", "Auto string / base64"], ["base64", "base64"]];

export function publishForm(vhost, queue) {
  const where = `${path("exchanges", vhost, DEFAULT)}/publish`;
  return form("Publish message", async (values) => {
    const message = {routing_key: queue, ...messageOf(values)};
    await attempt("Message published", () => post(where, message));
    refreshNow();
  }, messageFields());
}

export function getForm(where) {
  const shown = h("div", {role: "status"});
  return h("div", {}, form("Get messages", async ({count, ackmode, encoding}) => {
    const body = {count: Number(count), ackmode, encoding, truncate: TRUNCATE_BYTES};
    const found = await post(`${where}/get`, body);
    render(shown, found.length ? found.map(gotten) : h("p", {}, "The queue is empty."));
    refreshNow();
  }, fields(
    field("Messages", input("count", {type: "number", min: 1, max: 1000, value: 1})),
    field("Ack mode", select("ackmode", ACK_MODES)),
    field("Encoding", select("encoding", ENCODINGS)))), shown);
}

function gotten(message, place) {
  return h("article", {class: "message", "aria-label": `Message ${place + 1}`},
    h("p", {}, h("b", {}, `Message ${place + 1}`),
      `: exchange ${message.exchange || "(default)"}, routing key `,
      h("code", {}, message.routing_key), `, ${bytes(message.payload_bytes)} `,
      message.redelivered && tag("redelivered")),
    bodyOf(message));
}

// Properties and payload, which is truncated if it is long.
export function bodyOf({properties, payload, payload_encoding: encoding, payload_bytes: size}) {
  const hasProperties = Object.keys(properties ?? {}).length > 0;
  // Four characters of base64 are three bytes.
  const shown = encoding === "base64" ? payload.length * 3 / 4 : new Blob([payload]).size;
  return [
    hasProperties && h("details", {}, h("summary", {}, "Properties and headers"),
      h("pre", {}, json(properties))),
    h("pre", {class: "payload"}, payload),
    encoding === "base64"
      && h("p", {class: "quiet"}, "The payload is not text; shown as base64."),
    shown < size && h("p", {class: "quiet"}, `Truncated: the payload has ${bytes(size)}.`),
  ];
}
