// Making elements. What comes from the server only ever becomes text, never markup.

const SVG = "http://www.w3.org/2000/svg";

// h("a", {href: "#/"}, "text", child): a property that begins with "on" is a listener.
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children.flat()) {
    if (child === undefined || child === null || child === false) continue;
    element.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

export function replace(element, ...children) {
  element.replaceChildren();
  add(element, children);
}

let names = 0;

export function uniqueId(prefix) {
  names += 1;
  return `${prefix}-${names}`;
}

// A label with its control below it. hint: said after the label.
export function field(label, control, hint) {
  if (!control.id) control.id = uniqueId("field");
  return h("div", {class: "field"}, h("label", {for: control.id}, label, hint ? ` (${hint})` : ""), control);
}

export function checkbox(label, name, checked = false) {
  const control = h("input", {type: "checkbox", name, id: uniqueId("check"), checked});
  return h("div", {class: "field inline"}, control, h("label", {for: control.id}, label));
}

export function select(name, options, chosen) {
  const made = h("select", {name});
  for (const option of options) {
    const [value, text] = Array.isArray(option) ? option : [option, option];
    made.append(h("option", {value, selected: value === chosen}, text));
  }
  return made;
}

export function input(name, attributes = {}) {
  return h("input", {name, autocomplete: "off", ...attributes});
}

// A form whose button does something with its values; checkboxes are true or false.
export function form(button, submit, ...children) {
  const element = h("form", {onsubmit: async (event) => {
    event.preventDefault();
    const values = {};
    for (const control of element.elements) {
      if (!control.name) continue;
      values[control.name] = control.type === "checkbox" ? control.checked
        : control.type === "file" ? control.files[0] : control.value;
    }
    await submit(values, element);
  }}, ...children, h("button", {type: "submit", class: "main"}, button));
  return element;
}

export function panel(title, ...children) {
  return h("section", {class: "panel", "aria-label": title}, h("h2", {}, title), ...children);
}

export function numbers(pairs) {
  return h("dl", {class: "numbers"}, Object.entries(pairs).map(([name, value]) =>
    h("div", {}, h("dt", {}, name), h("dd", {}, value))));
}
