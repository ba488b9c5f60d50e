// Selects the page by the fragment of the address, `#/queues/%2F/orders?name=a`.
//
// The part after the question mark is the state of the page (filters, sorting, the page of a list),
// so that an address can be shared.

const routes = [];

// pattern: such as "queues/:vhost/:name". show(parameters): creates a page, {title, element,
// refresh}.
export function route(pattern, show) {
  routes.push({parts: pattern.split("/").filter(Boolean), show});
}

function split() {
  const [where, asked] = location.hash.replace(/^#\/?/, "").split("?");
  return {parts: where.split("/").filter(Boolean), asked: new URLSearchParams(asked ?? "")};
}

export function query() {
  return Object.fromEntries(split().asked);
}

// Changes the part after the question mark without loading another page.
export function setQuery(values) {
  const {asked} = split();
  for (const [name, value] of Object.entries(values)) {
    if (value === "" || value === undefined || value === null) asked.delete(name);
    else asked.set(name, value);
  }
  const where = location.hash.split("?")[0] || "#/";
  const text = asked.toString();
  history.replaceState(null, "", text ? `${where}?${text}` : where);
}

// Returns the page of the address, {show, parameters, first}, or null.
export function current() {
  const names = decoded(split().parts);
  if (!names) return null;
  for (const {parts, show} of routes) {
    const parameters = match(parts, names);
    if (parameters) return {show, parameters, first: names[0] ?? ""};
  }
  return null;
}

function decoded(parts) {
  try {
    return parts.map(decodeURIComponent);
  } catch {
    // An invalid percent encoding, typed by hand.
    return null;
  }
}

function match(parts, names) {
  if (parts.length !== names.length) return null;
  const parameters = {};
  for (const [place, part] of parts.entries()) {
    if (part.startsWith(":")) parameters[part.slice(1)] = names[place];
    else if (part !== names[place]) return null;
  }
  return parameters;
}

export const to = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

let isSent = false;

// Goes to another page after an action, whose notice goes along.
export function go(...parts) {
  isSent = location.hash !== to(...parts);
  location.hash = to(...parts);
}

// Returns whether go() led to the present page, and not the user; once.
export function wasSent() {
  const was = isSent;
  isSent = false;
  return was;
}
