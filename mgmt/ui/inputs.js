// Parts of forms that several pages have: virtual hosts, arguments, properties, payloads.

import {get} from "./api.js";
import {field, h, input, select} from "./dom.js";

// A choice of the virtual hosts, filled when they are known.
export function vhostChoice(name = "vhost", chosen = "") {
  const made = select(name, []);
  get("vhosts", {columns: "name"}).then((found) => {
    for (const vhost of found) made.append(h("option", {value: vhost.name, selected: vhost.name === chosen}, vhost.name));
  }, () => made.append(h("option", {value: "/"}, "/")));
  return made;
}

export function argumentsField(label = "Arguments") {
  return field(label, h("textarea", {name: "arguments", rows: 3, spellcheck: "false", placeholder: '{"x-max-length": 1000}'}), "JSON");
}

// A text of JSON as an object. Throws an Error that says what is wrong.
export function object(text, what = "The arguments") {
  if (!text?.trim()) return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} are not JSON: ${error.message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) throw new Error(`${what} must be a JSON object`);
  return value;
}

export function messageFields(properties = {}, payload = "", encoding = "string") {
  return [
    field("Properties", h("textarea", {name: "properties", rows: 4, spellcheck: "false",
      placeholder: '{"delivery_mode": 2, "headers": {"key": "value"}}'},
    Object.keys(properties).length ? JSON.stringify(properties, null, 2) : ""), "JSON"),
    field("Payload", h("textarea", {name: "payload", rows: 5, spellcheck: "false"}, payload)),
    field("Payload is", select("encoding", [["string", "text"], ["base64", "base64"]], encoding)),
  ];
}

export const nameField = (label = "Name") => field(label, input("name", {required: true}));
