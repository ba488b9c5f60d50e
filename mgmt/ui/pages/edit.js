// The dialog that changes a message before it is retried. Only what was changed is sent: JSON does
// not tell all types of headers apart, so what is not touched had better not go through it.

import {notice, openForm} from "../dialog.js";
import {h} from "../dom.js";
import {field, fields, form, input, messageFields, messageOf, valuesOf} from "../forms.js";

const PARTS = {payload: ["payload", "encoding"], properties: ["properties", "headers", "mode"]};

// retry(body): does it; whether it was done.
export function edit(message, retry) {
  // An empty table is an empty list in RabbitMQ's JSON.
  const properties = Array.isArray(message.properties) ? {} : message.properties;
  const element = form("Retry with these changes", async (values) => {
    const body = {ids: [message.id], edit: changesOf(original, values)};
    const {exchange, key} = values;
    if (exchange || key) body.to = {exchange, routing_key: key};
    if (await retry(body)) dialog.close();
    else notice("The message is where it was.", true);
  }, h("p", {class: "quiet"},
    "Without an exchange and a routing key it goes to where it came from."),
  fields(field("To exchange", input("exchange")), field("Routing key", input("key"))),
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
