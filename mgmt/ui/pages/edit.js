// The dialog for editing a message before it is retried. Only changed parts are sent: JSON cannot
// represent all types of headers, so unchanged parts should not be converted.

import {notice, openForm} from "../dialog.js";
import {h} from "../dom.js";
import {field, fields, form, input, messageFields, messageOf, valuesOf} from "../forms.js";

const PARTS = {payload: ["payload", "encoding"], properties: ["properties", "headers", "mode"]};

// target: where the message came from, as x-death says. retry(body): sends the request; returns
// whether it succeeded.
export function edit(message, target, retry) {
  // RabbitMQ's JSON has an empty list for an empty table.
  const properties = Array.isArray(message.properties) ? {} : message.properties;
  const element = form("Retry with these changes", async (values) => {
    const {exchange, key} = values;
    const body = {
      ids: [message.id], edit: changesOf(original, values), to: {exchange, routing_key: key},
    };
    if (await retry(body)) dialog.close();
    else notice("The message stays in the queue unchanged.", true);
  }, h("p", {class: "quiet"},
    "The exchange and routing key are those of the x-death header, which a client can forge."),
  fields(field("To exchange", input("exchange",
    {value: target.exchange, placeholder: "the default exchange"})),
  field("Routing key", input("key", {value: target.routing_keys[0]}))),
  messageFields(properties, message.payload, message.payload_encoding));
  const original = valuesOf(element);
  const dialog = openForm("Edit and retry", element);
}

function changesOf(original, values) {
  const message = messageOf(values);
  const differs = (names) => names.some((name) => original[name] !== values[name]);
  const changes = {};
  if (differs(PARTS.payload)) {
    changes.payload = message.payload;
    changes.payload_encoding = message.payload_encoding;
  }
  if (differs(PARTS.properties)) changes.properties = message.properties;
  return changes;
}
