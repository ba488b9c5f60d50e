// The list of virtual hosts, adding one, and a single virtual host with its permissions.

import {del, get, path, put} from "../api.js";
import {Chart} from "../chart.js";
import {attempt, confirm, confirmByName} from "../dialog.js";
import {code, facts, fold, h, panel, render, tag} from "../dom.js";
import {button, changing, dangerous, field, fields, input, select} from "../forms.js";
import {byteRate, count, plural, rate} from "../format.js";
import {refreshNow} from "../live.js";
import {Period} from "../period.js";
import {go, to} from "../router.js";
import {messageRates, queuedMessages} from "../samples.js";
import {mayAdminister} from "../session.js";
import {List} from "../table.js";
import {administration, plainPanel, removal} from "./administration.js";
import {Unroutable} from "./unroutable.js";

const countColumn = (key, title) => ({key, title, number: true, cell: (row) => count(row[key])});

administration("vhosts", () => {
  const list = new List({
    caption: "Virtual hosts", where: () => "vhosts", key: (row) => row.name,
    columns: [
      {key: "name", title: "Name", cell: (row) =>
        h("a", {href: to("admin", "vhosts", row.name)}, row.name)},
      {key: "description", title: "Description", minor: true},
      {key: "tags", title: "Tags", minor: true, sortable: false,
        cell: (row) => row.tags.map((one) => tag(one))},
      countColumn("messages_ready", "Ready"),
      countColumn("messages_unacknowledged", "Unacked"),
      countColumn("messages", "Total"),
      {key: "recv_oct_details.rate", title: "From client", number: true,
        cell: (row) => byteRate(row.recv_oct_details?.rate)},
      {key: "send_oct_details.rate", title: "To client", number: true,
        cell: (row) => byteRate(row.send_oct_details?.rate)},
      {key: "tracing", title: "Tracing", cell: (row) => (row.tracing ? "on" : "off")},
      removal({label: (row) => `Delete virtual host ${row.name}`, ask: askRemoval,
        work: (row) => del(path("vhosts", row.name)), done: "Virtual host deleted",
        may: mayAdminister}),
    ],
  });
  return {title: "Virtual hosts", lists: [list], panels: [plainPanel("Virtual hosts", list.element),
    mayAdminister() ? panel("Add a new virtual host", addForm()) : ""]};
});

// A virtual host with messages is not deleted by a single click.
async function askRemoval({name}) {
  const {messages = 0} = await get(path("vhosts", name), {columns: "messages"});
  const title = `Delete virtual host ${name}?`;
  const detail = `${name} has ${plural(messages, "message")}: they, its exchanges and queues will `
    + "be deleted, and its connections closed.";
  return messages ? confirmByName(title, detail, name) : confirm(title, detail);
}

const describing = (row = {tags: []}) => fields(
  field("Description", input("description", {value: row.description ?? ""})),
  field("Tags", input("tags", {value: row.tags.join(", ")}), "separated by commas"));

const unroutableChoice = (row) => fields(
  field("Unroutable publishes", select("unroutable_publishes", ["accept", "refuse"],
    row.metadata.unroutable_publishes ?? "accept"),
  "refuse: a publisher must set mandatory, or its exchange have an alternate exchange"));

const bodyOf = ({description, tags, unroutable_publishes}) =>
  ({description, tags, unroutable_publishes});

function addForm() {
  return changing("Add virtual host", {
    done: (values) => `Virtual host ${values.name} added`, after: refreshNow,
    work: (values) => put(path("vhosts", values.name), bodyOf(values)),
  }, fields(field("Name", input("name", {required: true}))), describing());
}

administration("vhosts/:name", ({name}) => {
  const where = path("vhosts", name);
  const parts = {about: h("div"), change: h("div"), operations: h("div", {class: "row"})};
  const messages = new Chart("Queued messages", count);
  const flow = new Chart("Message rates", rate);
  const period = new Period(refreshNow, true);
  const permissions = permissionList(where);
  const unroutable = new Unroutable(name);
  const refresh = async () => {
    const row = await get(where, period.query("lengths", "msg_rates"));
    render(parts.about, aboutVhost(row));
    messages.draw(queuedMessages(row));
    flow.draw(messageRates(row.message_stats));
    if (!mayAdminister()) return;
    if (!parts.change.firstChild) parts.change.append(changeForm(row));
    render(parts.operations, tracing(row, where),
      dangerous("Delete this virtual host", () => remove(row, where)));
    await Promise.all([permissions.refresh(), unroutable.refresh()]);
  };
  const mine = [panel("Overview", parts.about), period.element,
    h("div", {class: "grid"}, messages.element, flow.element)];
  const administrators = () => [panel("Permissions", permissions.element),
    panel("Unroutable messages", unroutable.element),
    fold("Update this virtual host", parts.change), panel("Operations", parts.operations)];
  return {title: `Virtual host ${name}`, refresh,
    panels: mayAdminister() ? [...mine, ...administrators()] : mine};
});

function aboutVhost(row) {
  return facts({Description: row.description || "–",
    Tags: row.tags.length ? row.tags.map((one) => tag(one)) : "none",
    "Default queue type":
      row.default_queue_type === "undefined" ? "classic" : row.default_queue_type,
    "Unroutable publishes": row.metadata.unroutable_publishes ?? "accept",
    Tracing: row.tracing ? "on" : "off", Ready: count(row.messages_ready),
    Unacked: count(row.messages_unacknowledged), Total: count(row.messages),
    Queues: h("a", {href: `${to("queues")}?vhost=${encodeURIComponent(row.name)}`}, "show")});
}

function permissionList(where) {
  return new List({
    id: "permissions", caption: "Permissions", small: true, key: (row) => row.user,
    load: () => get(`${where}/permissions`), empty: "No permissions.",
    columns: [
      {key: "user", title: "User", cell: (row) =>
        h("a", {href: to("admin", "users", row.user)}, row.user)},
      ...[["configure", "Configure"], ["write", "Write"], ["read", "Read"]].map(([key, title]) =>
        ({key, title, cell: (row) => code(row[key])}))],
  });
}

function changeForm(row) {
  return changing("Update virtual host", {
    done: () => `Virtual host ${row.name} updated`, after: refreshNow,
    work: (values) => put(path("vhosts", row.name), bodyOf(values)),
  }, describing(row), unroutableChoice(row));
}

function tracing(row, where) {
  const [action, done] = row.tracing ? ["Stop", "stopped"] : ["Start", "started"];
  return button(`${action} tracing`, async () => {
    const isDone = await attempt(`Tracing ${done}`, () => put(where, {
      description: row.description, tags: row.tags.join(","), tracing: !row.tracing,
    }));
    if (isDone) refreshNow();
  });
}

async function remove(row, where) {
  if (!await askRemoval(row)) return;
  if (await attempt(`Virtual host ${row.name} deleted`, () => del(where))) go("admin", "vhosts");
}
