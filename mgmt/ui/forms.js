// Forms, and form parts of several pages: virtual hosts, arguments, messages.

import {attempt, notice, thisPage} from "./dialog.js";
import {h, uniqueId} from "./dom.js";
import {chosenVhost, vhostNames} from "./vhost_choice.js";

// A label with its control. hint: shown after the label.
export function field(label, control, hint) {
  if (!control.id) control.id = uniqueId("field");
  const said = hint ? h("span", {class: "hint"}, ` (${hint})`) : "";
  return h("div", {class: "field"}, h("label", {for: control.id}, label, said), control);
}

export const fields = (...children) => h("div", {class: "fields"}, ...children);

export const row = (...children) => h("div", {class: "row"}, ...children);

export function checkbox(label, name, checked = false) {
  const control = h("input", {type: "checkbox", name, id: uniqueId("check"), checked});
  return h("div", {class: "field inline"}, control, h("label", {for: control.id}, label));
}

// options: values, or pairs of a value and its text. Their keys keep the user's choice when other
// options come or go.
export function select(name, options, chosen) {
  return h("select", {name}, options.map((option) => {
    const [value, text] = Array.isArray(option) ? option : [option, option];
    return h("option", {value, "data-key": value, selected: value === chosen}, text);
  }));
}

export function input(name, attributes = {}) {
  return h("input", {name, autocomplete: "off", spellcheck: "false", ...attributes});
}

export function textarea(name, attributes = {}, text = "") {
  return h("textarea", {name, rows: 3, spellcheck: "false", ...attributes}, text);
}

export const button = (text, work, attributes = {}) =>
  h("button", {type: "button", onclick: work, ...attributes}, text);

export const dangerous = (text, work, attributes = {}) =>
  button(text, work, {class: "danger", ...attributes});

// Returns the values of a form: checkboxes are booleans, a file is a File.
export function valuesOf(form) {
  const values = {};
  for (const control of form.elements) {
    if (!control.name) continue;
    if (control.type === "checkbox") values[control.name] = control.checked;
    else if (control.type === "file") values[control.name] = control.files[0];
    else values[control.name] = control.value;
  }
  return values;
}

// A form whose button processes its values. Errors become notices.
export function form(text, submit, ...children) {
  return h("form", {onsubmit: async (event) => {
    event.preventDefault();
    // A refresh gives the handler of a new form to the one that is shown, which has the input.
    const shown = event.currentTarget;
    const send = shown.querySelector("button[type=submit]");
    send.disabled = true;
    const page = thisPage();
    try {
      await submit(valuesOf(shown), shown);
    } catch (error) {
      notice(error.message, true, page);
    }
    send.disabled = false;
  }}, ...children, row(h("button", {type: "submit", class: "main"}, text)));
}

// A form that changes something: afterwards it is reset, and the page is refreshed.
export function changing(text, {done, work, after}, ...children) {
  return form(text, async (values, element) => {
    if (!await attempt(done(values), () => work(values))) return;
    element.reset();
    await after();
  }, ...children);
}

// Parses a JSON object. Throws an Error with the reason.
export function object(text, what = "The arguments") {
  if (!text?.trim()) return {};
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`${what} are not JSON: ${error.message}`);
  }
  if (typeof value !== "object" || value === null || Array.isArray(value)) {
    throw new Error(`${what} must be a JSON object, such as {"name": "value"}`);
  }
  return value;
}

// A choice of virtual hosts. chosen: the default, else the first one. hasAll: "" stands for all.
export function vhostChoice({chosen = chosenVhost() || "/", hasAll = false} = {}) {
  const made = select("vhost", hasAll ? [["", "All"]] : []);
  vhostNames().then((names) => {
    for (const name of names) made.append(h("option", {value: name}, name));
    // Resetting the form restores it.
    const options = [...made.options];
    (options.find((one) => one.value === chosen) ?? options[0])?.setAttribute("selected", "");
  }, (error) => notice(`Cannot load the virtual hosts: ${error.message}`, true));
  return made;
}

export const vhostField = () => field("Virtual host", vhostChoice());

export const nameField = (label = "Name") => field(label, input("name", {required: true}));

// A JSON text area with buttons that insert known keys. known: {key: example}.
export function objectField(label, name, known = {}, attributes = {}) {
  const control = textarea(name, attributes);
  const insert = (key) => {
    try {
      control.value = JSON.stringify({...object(control.value, label), [key]: known[key]}, null, 2);
      control.focus();
    } catch (error) {
      notice(error.message, true);
    }
  };
  const chips = Object.keys(known).map((key) => button(key, () => insert(key), {class: "chip"}));
  const group = h("div", {class: "chips", role: "group", "aria-label": `Add to ${label}`}, chips);
  return h("div", {}, field(label, control, "JSON"), chips.length ? group : "");
}

const ENCODINGS = [["string", "text"], ["base64", "base64"]];
const DELIVERY_MODES = [["2", "2, persistent"], ["1", "1, transient"]];
const PROPERTIES = {content_type: "application/json", correlation_id: "", reply_to: "",
  expiration: "60000", priority: 5, message_id: "", type: "", app_id: ""};

// The fields of a message: properties, headers and payload.
export function messageFields(message = {}, payload = "", encoding = "string") {
  const {headers = {}, ...properties} = message;
  const {delivery_mode: mode = 2, ...others} = properties;
  const text = (value) => (Object.keys(value).length ? JSON.stringify(value, null, 2) : "");
  const made = h("div", {},
    fields(field("Delivery mode", select("mode", DELIVERY_MODES, String(mode))),
      field("Payload encoding", select("encoding", ENCODINGS, encoding))),
    objectField("Headers", "headers"), objectField("Properties", "properties", PROPERTIES),
    field("Payload", textarea("payload", {rows: 5}, payload)));
  made.querySelector("[name=headers]").value = text(headers);
  made.querySelector("[name=properties]").value = text(others);
  return made;
}

// Converts these fields to a message for the API.
export function messageOf(values) {
  const headers = object(values.headers, "The headers");
  const properties = {...object(values.properties, "The properties"),
    delivery_mode: Number(values.mode)};
  if (Object.keys(headers).length) properties.headers = headers;
  return {payload: values.payload, payload_encoding: values.encoding, properties};
}
