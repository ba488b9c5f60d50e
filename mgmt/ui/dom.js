// Creates and updates elements.
//
// h() and svg() create elements. Data from the server only becomes text, never markup. render()
// updates the children of an element by changing only what differs, so that focus, selection,
// scroll position and input survive a refresh. Elements with a `data-key` are identified by it;
// others by kind and position.

const SVG = "http://www.w3.org/2000/svg";

// h("a", {href: "#/"}, "text", child): a property that begins with "on" is an event handler.
export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) handle(element, name, value);
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  element.append(...nodes(children));
  return element;
}

function handle(element, name, work) {
  element[name] = work;
  element.handled = [...element.handled ?? [], name];
}

// Converts children to nodes: strings become text nodes, and null or false are omitted.
function nodes(children) {
  return children.flat(Infinity)
    .filter((child) => child !== undefined && child !== null && child !== false && child !== "")
    .map((child) => (child instanceof Node ? child : document.createTextNode(String(child))));
}

export function replace(element, ...children) {
  element.replaceChildren(...nodes(children));
}

export function render(element, ...children) {
  const focused = document.activeElement;
  settleChildren(element, nodes(children));
  // Moving an element would make it lose the focus.
  if (focused !== document.activeElement && element.contains(focused)) {
    focused.focus({preventScroll: true});
  }
}

const keyOf = (node) => node.dataset?.key;

const isSameKind = (one, other) =>
  one.nodeName === other.nodeName && keyOf(one) === undefined && keyOf(other) === undefined;

function settleChildren(parent, wanted) {
  const keys = new Set(wanted.map(keyOf));
  const known = new Map();
  for (const child of [...parent.childNodes]) {
    const key = keyOf(child);
    if (key === undefined) continue;
    if (keys.has(key)) known.set(key, child);
    else child.remove();
  }
  let place = parent.firstChild;
  for (const child of wanted) {
    const key = keyOf(child);
    const old = key !== undefined ? known.get(key) : place && isSameKind(place, child) && place;
    if (old === place && old) place = place.nextSibling;
    else parent.insertBefore(old || child, place);
    if (old && old !== child) settle(old, child);
  }
  while (place) {
    const next = place.nextSibling;
    place.remove();
    place = next;
  }
}

function settle(old, wanted) {
  if (old.nodeType === Node.TEXT_NODE) {
    if (old.data !== wanted.data) old.data = wanted.data;
    return;
  }
  settleAttributes(old, wanted);
  for (const name of old.handled ?? []) old[name] = null;
  old.handled = wanted.handled;
  for (const name of wanted.handled ?? []) old[name] = wanted[name];
  settleChildren(old, [...wanted.childNodes]);
}

function settleAttributes(old, wanted) {
  for (const {name, value} of wanted.attributes) {
    if (name === "style") continue;
    if (old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  // A strict content security policy requires that scripts set each style property separately.
  if (wanted.style.cssText !== old.style.cssText) {
    for (const name of [...old.style]) old.style.removeProperty(name);
    for (const name of wanted.style) {
      old.style.setProperty(name, wanted.style.getPropertyValue(name));
    }
  }
  for (const {name} of [...old.attributes]) {
    // An element that the user has opened stays open.
    if (name === "style" || (name === "open" && old.nodeName === "DETAILS")) continue;
    if (!wanted.hasAttribute(name)) old.removeAttribute(name);
  }
}

let ids = 0;

export function uniqueId(prefix) {
  ids += 1;
  return `${prefix}-${ids}`;
}

// A section with a heading.
export function panel(title, ...children) {
  return h("section", {class: "panel", "aria-label": title}, h("h2", {}, title), ...children);
}

// A section that is collapsed until the user opens it.
export function fold(title, ...children) {
  return h("section", {class: "panel", "aria-label": title}, h("details", {},
    h("summary", {}, h("h2", {}, title)), ...children));
}

// A list of names and values. pairs: {name: value}.
export function facts(pairs) {
  return h("dl", {class: "facts"}, Object.entries(pairs).map(([name, value]) =>
    h("div", {"data-key": name}, h("dt", {}, name), h("dd", {}, value))));
}

export const tag = (text, kind = "") => h("span", {class: `tag ${kind}`.trim()}, text);

export const code = (value) => (value === "" ? h("span", {class: "quiet"}, "(empty)")
  : h("code", {}, typeof value === "string" ? value : JSON.stringify(value)));

// Wraps a table that may be wider than the page, so that it scrolls by itself.
export function frame(label, table) {
  return h("div", {class: "scroll", role: "region", "aria-label": label, tabindex: 0}, table);
}

// A table without controls. rows: lists of cells.
export function table(caption, heads, rows) {
  return frame(caption, h("table", {}, h("caption", {class: "unseen"}, caption),
    h("thead", {}, h("tr", {}, heads.map((head) => h("th", {scope: "col"}, head)))),
    h("tbody", {}, rows.map((cells) => h("tr", {}, cells.map((cell) => h("td", {}, cell)))))));
}
