// Administration: users and their permissions, virtual hosts, policies, limits, features, audit.

import {del, get, path, put} from "./api.js";
import {attempt, confirm} from "./dialog.js";
import {field, form, h, input, panel, select} from "./dom.js";
import {count, time} from "./format.js";
import {object, vhostChoice} from "./inputs.js";
import {route, to} from "./router.js";
import {List} from "./table.js";

const TABS = [["", "Users"], ["vhosts", "Virtual hosts"], ["policies", "Policies"], ["operator-policies", "Operator policies"],
  ["limits", "Limits"], ["features", "Features"], ["audit", "Audit"]];

function tabs(current) {
  return h("nav", {class: "subnav", "aria-label": "Administration"}, TABS.map(([name, title]) =>
    h("a", {href: name ? to("admin", name) : "#/admin", "aria-current": name === current ? "page" : undefined}, title)));
}

function page(title, tab, lists, ...panels) {
  return {title, element: h("div", {}, tabs(tab), ...panels), async refresh() {
    for (const list of lists) await list.refresh();
  }};
}

const deleteButton = (label, work) => h("button", {type: "button", class: "danger", "aria-label": label, onclick: work}, "Delete");

route("admin", (_parameters, user) => {
  if (!user.tags.includes("administrator")) return page("Policies", "policies", [policyList("policies")]);
  const users = new List({caption: "Users", load: () => get("users"), key: (row) => row.name, columns: [
    {key: "name", title: "Name", cell: (row) => h("a", {href: to("admin", "users", row.name)}, row.name)},
    {key: "tags", title: "Tags", cell: (row) => row.tags.map((tag) => h("span", {class: "tag"}, tag))},
    {key: "password_hash", title: "Password", cell: (row) => (row.password_hash ? "yes" : "none: cannot log in with one")},
    {key: "delete", title: "", sortable: false, cell: (row) => deleteButton(`Delete user ${row.name}`, async () => {
      if (await confirm(`Delete ${row.name}?`, "Its permissions go, and its connections are closed.")
        && await attempt("User deleted", () => del(path("users", row.name)))) users.refresh();
    })},
  ]});
  const make = form("Save user", async (values, element) => {
    const body = {tags: values.tags};
    if (values.password) body.password = values.password;
    else body.password_hash = "";
    if (await attempt(`User ${values.name} saved`, () => put(path("users", values.name), body))) {
      element.reset();
      users.refresh();
    }
  }, h("div", {class: "fields"}, field("Name", input("name", {required: true})),
    field("Password", input("password", {type: "password", autocomplete: "new-password"}), "none, if empty"),
    field("Tags", input("tags", {placeholder: "administrator, monitoring, policymaker, management"}))));
  return page("Users", "", [users], h("section", {class: "panel"}, users.element), panel("Add or change a user", make));
});

route("admin/users/:name", ({name}) => {
  const columns = (topic) => ["vhost", ...(topic ? ["exchange"] : ["configure"]), "write", "read"].map((key) => ({key, title: key,
    cell: (row) => h("code", {}, row[key])}));
  const permissions = new List({caption: "Permissions", load: () => get(path("users", name, "permissions")), key: (row) => row.vhost,
    empty: "This user may open no virtual host.", columns: [...columns(false), {key: "clear", title: "", sortable: false,
      cell: (row) => deleteButton(`Clear permissions in ${row.vhost}`, async () => {
        if (await attempt("Permissions cleared", () => del(path("permissions", row.vhost, name)))) permissions.refresh();
      })}]});
  const topics = new List({caption: "Topic permissions", load: () => get(path("users", name, "topic-permissions")),
    key: (row) => `${row.vhost} ${row.exchange}`, empty: "There are no limits on topics.", columns: [...columns(true), {key: "clear", title: "", sortable: false,
      cell: (row) => deleteButton(`Clear topic permissions on ${row.exchange}`, async () => {
        if (await attempt("Topic permissions cleared", () => del(path("topic-permissions", row.vhost, name, row.exchange || "amq.default")))) topics.refresh();
      })}]});
  const patterns = (names) => names.map((one) => field(one, input(one.toLowerCase(), {value: ".*"}), "regular expression"));
  const set = form("Set permissions", async (values) => {
    const {configure, write, read} = values;
    if (await attempt("Permissions set", () => put(path("permissions", values.vhost, name), {configure, write, read}))) permissions.refresh();
  }, h("div", {class: "fields"}, field("Virtual host", vhostChoice()), patterns(["Configure", "Write", "Read"])));
  const setTopic = form("Set topic permissions", async (values) => {
    const {exchange, write, read} = values;
    if (await attempt("Topic permissions set", () => put(path("topic-permissions", values.vhost, name), {exchange, write, read}))) topics.refresh();
  }, h("div", {class: "fields"}, field("Virtual host", vhostChoice()), field("Exchange", input("exchange", {value: "amq.topic"})), patterns(["Write", "Read"])));
  return page(`User ${name}`, "", [permissions, topics], panel("Permissions", permissions.element, set), panel("Topic permissions", topics.element, setTopic));
});

route("admin/vhosts", () => {
  const list = new List({caption: "Virtual hosts", load: () => get("vhosts"), key: (row) => row.name, columns: [
    {key: "name", title: "Name"}, {key: "description", title: "Description"},
    {key: "tags", title: "Tags", cell: (row) => row.tags.map((tag) => h("span", {class: "tag"}, tag))},
    {key: "messages", title: "Messages", number: true, cell: (row) => count(row.messages)},
    {key: "tracing", title: "Tracing", cell: (row) => h("button", {type: "button", "aria-pressed": String(row.tracing),
      "aria-label": `Tracing of ${row.name}`, onclick: async () => {
        if (await attempt(`Tracing ${row.tracing ? "off" : "on"}`, () => put(path("vhosts", row.name), {tracing: !row.tracing}))) list.refresh();
      }}, row.tracing ? "on" : "off")},
    {key: "delete", title: "", sortable: false, cell: (row) => deleteButton(`Delete virtual host ${row.name}`, async () => {
      if (await confirm(`Delete ${row.name}?`, "All its exchanges, queues and messages will be gone, and its connections closed.")
        && await attempt("Virtual host deleted", () => del(path("vhosts", row.name)))) list.refresh();
    })},
  ]});
  const make = form("Add virtual host", async (values, element) => {
    if (await attempt(`Virtual host ${values.name} added`, () => put(path("vhosts", values.name), {description: values.description, tags: values.tags}))) {
      element.reset();
      list.refresh();
    }
  }, h("div", {class: "fields"}, field("Name", input("name", {required: true})), field("Description", input("description")), field("Tags", input("tags"))));
  return page("Virtual hosts", "vhosts", [list], h("section", {class: "panel"}, list.element), panel("Add a virtual host", make));
});

function policyList(kind) {
  const list = new List({caption: "Policies", load: () => get(kind), key: (row) => `${row.vhost} ${row.name}`, empty: "There are no policies.", columns: [
    {key: "vhost", title: "Virtual host"}, {key: "name", title: "Name"}, {key: "pattern", title: "Pattern", cell: (row) => h("code", {}, row.pattern)},
    {key: "apply-to", title: "Applies to"}, {key: "definition", title: "Definition", sortable: false, cell: (row) => h("code", {}, JSON.stringify(row.definition))},
    {key: "priority", title: "Priority", number: true},
    {key: "delete", title: "", sortable: false, cell: (row) => deleteButton(`Delete policy ${row.name}`, async () => {
      if (await confirm(`Delete ${row.name}?`, "Queues and exchanges that it is for lose what it asks for at once.")
        && await attempt("Policy deleted", () => del(path(kind, row.vhost, row.name)))) list.refresh();
    })},
  ]});
  return list;
}

for (const [kind, title] of [["policies", "Policies"], ["operator-policies", "Operator policies"]]) {
  route(`admin/${kind}`, () => {
    const list = policyList(kind);
    const make = form("Save policy", async (values, element) => {
      const done = await attempt(`Policy ${values.name} saved`, () => put(path(kind, values.vhost, values.name), {pattern: values.pattern,
        definition: object(values.definition, "The definition"), priority: Number(values.priority), "apply-to": values.apply}));
      if (done) {
        element.reset();
        list.refresh();
      }
    }, h("div", {class: "fields"}, field("Virtual host", vhostChoice()), field("Name", input("name", {required: true})),
      field("Pattern", input("pattern", {required: true}), "regular expression"),
      field("Applies to", select("apply", kind === "policies" ? ["all", "queues", "exchanges", "classic_queues"] : ["queues", "classic_queues"])),
      field("Priority", input("priority", {type: "number", value: 0}))),
    field("Definition", h("textarea", {name: "definition", rows: 3, required: true, placeholder: '{"max-length": 1000}'}), "JSON"));
    return page(title, kind, [list], h("section", {class: "panel"}, list.element), panel(`Add or change one of the ${title.toLowerCase()}`, make));
  });
}

route("admin/limits", () => {
  const limitList = (kind, title) => {
    const list = new List({caption: title, key: (row) => `${row.of} ${row.name}`, empty: "There are no limits.", load: async () =>
      (await get(`${kind}-limits`)).flatMap((row) => Object.entries(row.value).map(([name, value]) => ({of: row[kind], name, value}))), columns: [
      {key: "of", title: kind === "vhost" ? "Virtual host" : "User"}, {key: "name", title: "Limit"}, {key: "value", title: "Value", number: true},
      {key: "clear", title: "", sortable: false, cell: (row) => deleteButton(`Clear ${row.name} of ${row.of}`, async () => {
        if (await attempt("Limit cleared", () => del(path(`${kind}-limits`, row.of, row.name)))) list.refresh();
      })},
    ]});
    return list;
  };
  const vhosts = limitList("vhost", "Limits of virtual hosts");
  const users = limitList("user", "Limits of users");
  const setForm = (kind, of, names, list) => form("Set limit", async (values) => {
    if (await attempt("Limit set", () => put(path(`${kind}-limits`, values.of, values.name), {value: Number(values.value)}))) list.refresh();
  }, h("div", {class: "fields"}, of, field("Limit", select("name", names)), field("Value", input("value", {type: "number", required: true}), "negative: none")));
  return page("Limits", "limits", [vhosts, users],
    panel("Virtual hosts", vhosts.element, setForm("vhost", field("Virtual host", vhostChoice("of")), ["max-connections", "max-queues"], vhosts)),
    panel("Users", users.element, setForm("user", field("User", input("of", {required: true})), ["max-connections", "max-channels"], users)));
});

route("admin/features", () => {
  const list = new List({caption: "Features", load: () => get("feature-flags"), key: (row) => row.name, columns: [
    {key: "name", title: "Name"}, {key: "state", title: "State"}, {key: "desc", title: "What it is"}]});
  return page("Features", "features", [list], h("section", {class: "panel"}, list.element));
});

route("admin/audit", () => {
  const list = new List({caption: "Audit log", load: () => get("audit", {count: 1000}), key: (row) => `${row.time} ${row.queue} ${JSON.stringify(row.detail)}`,
    empty: "Nobody has touched messages by hand.", columns: [
      {key: "time", title: "When", cell: (row) => time(row.time)}, {key: "user", title: "Who"}, {key: "action", title: "What"},
      {key: "vhost", title: "Virtual host"}, {key: "queue", title: "Queue"},
      {key: "detail", title: "Detail", sortable: false, cell: (row) => h("code", {}, JSON.stringify(row.detail))}]});
  return page("Audit", "audit", [list], h("section", {class: "panel"}, list.element));
});

