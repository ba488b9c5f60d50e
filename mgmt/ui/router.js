// Which page is shown: the part of the address behind the number sign, `#/queues/%2F/orders?name=a`.

const routes = [];

// pattern: such as "queues/:vhost/:name". show(parameters): makes a page, {title, element, refresh}.
export function route(pattern, show) {
  routes.push({parts: pattern.split("/").filter(Boolean), show});
}

function split() {
  const [where, asked] = location.hash.replace(/^#\/?/, "").split("?");
  return {parts: where.split("/").filter(Boolean).map(decodeURIComponent), asked: new URLSearchParams(asked ?? "")};
}

export function query() {
  return Object.fromEntries(split().asked);
}

// Change what stands behind the question mark without going to another page.
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

export function current() {
  const {parts} = split();
  for (const {parts: wanted, show} of routes) {
    if (wanted.length !== parts.length) continue;
    const parameters = {};
    const fits = wanted.every((name, place) => {
      if (!name.startsWith(":")) return name === parts[place];
      parameters[name.slice(1)] = parts[place];
      return true;
    });
    if (fits) return {show, parameters, first: parts[0] ?? ""};
  }
  return null;
}

export const to = (...parts) => `#/${parts.map(encodeURIComponent).join("/")}`;

export function go(...parts) {
  location.hash = to(...parts);
}
