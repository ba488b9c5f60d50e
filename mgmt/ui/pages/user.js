// A single user: tags, permissions, topic permissions, and changes to them.

import {del, get, path, put} from "../api.js";
import {attempt, confirm} from "../dialog.js";
import {code, facts, fold, h, panel, render, tag} from "../dom.js";
import {changing, dangerous, field, fields, input, vhostChoice} from "../forms.js";
import {refreshNow} from "../live.js";
import {go} from "../router.js";
import {List} from "../table.js";
import {DEFAULT} from "../declared.js";
import {administration, removal} from "./administration.js";
import {changeForm} from "./users.js";

administration("users/:name", ({name}) => {
  const where = path("users", name);
  const about = h("div");
  const change = h("div");
  const permissions = permissionList(name);
  const topics = topicList(name);
  const refresh = async () => {
    const user = await get(where);
    render(about, aboutUser(user));
    if (!change.firstChild) change.append(changeForm(user));
    await Promise.all([permissions.refresh(), topics.refresh()]);
  };
  return {title: `User ${name}`, refresh, panels: [
    panel("Overview", about),
    panel("Permissions", permissions.element, permissionForm(name)),
    panel("Topic permissions", topics.element, topicForm(name)),
    fold("Update this user", change),
    panel("Operations", dangerous("Delete this user", () => remove(name, where)))]};
});

function aboutUser(user) {
  const limits = Object.entries(user.limits ?? {}).map(([key, value]) => `${key}: ${value}`);
  return facts({Tags: user.tags.length ? user.tags.map((one) => tag(one)) : "none",
    "Can log in with password": user.password_hash ? "yes" : "no",
    Limits: limits.join(", ") || "none"});
}

const patternColumn = (key, title) => ({key, title, cell: (row) => code(row[key])});

function permissionList(name) {
  return new List({
    id: "permissions", caption: "Permissions", small: true, key: (row) => row.vhost,
    load: () => get(path("users", name, "permissions")),
    empty: "No access to any virtual host.",
    columns: [{key: "vhost", title: "Virtual host"}, patternColumn("configure", "Configure"),
      patternColumn("write", "Write"), patternColumn("read", "Read"),
      removal({text: "Clear", label: (row) => `Clear permissions in ${row.vhost}`,
        detail: (row) => `${name} will lose access to ${row.vhost}.`,
        work: (row) => del(path("permissions", row.vhost, name)), done: "Permissions cleared"})],
  });
}

function topicList(name) {
  return new List({
    id: "topics", caption: "Topic permissions", small: true,
    load: () => get(path("users", name, "topic-permissions")),
    key: (row) => `${row.vhost}\n${row.exchange}`,
    empty: "No topic permissions: every routing key is permitted.",
    columns: [{key: "vhost", title: "Virtual host"}, {key: "exchange", title: "Exchange"},
      patternColumn("write", "Write"), patternColumn("read", "Read"),
      removal({text: "Clear", label: (row) => `Clear topic permissions on ${row.exchange}`,
        detail: (row) => `${name} will be able to use any routing key on ${row.exchange}.`,
        work: (row) => del(path("topic-permissions", row.vhost, name, row.exchange || DEFAULT)),
        done: "Topic permissions cleared"})],
  });
}

const patternField = (label, name) =>
  field(label, input(name, {value: ".*"}));

function permissionForm(name) {
  return changing("Set permissions", {
    done: () => "Permissions set", after: refreshNow,
    work: ({vhost, configure, write, read}) =>
      put(path("permissions", vhost, name), {configure, write, read}),
  }, fields(field("Virtual host", vhostChoice()), patternField("Configure regexp", "configure"),
    patternField("Write regexp", "write"), patternField("Read regexp", "read")));
}

function topicForm(name) {
  return changing("Set topic permissions", {
    done: () => "Topic permissions set", after: refreshNow,
    work: ({vhost, exchange, write, read}) =>
      put(path("topic-permissions", vhost, name), {exchange, write, read}),
  }, fields(field("Virtual host", vhostChoice()),
    field("Exchange", input("exchange", {value: "amq.topic", required: true})),
    patternField("Write regexp", "write"), patternField("Read regexp", "read")));
}

async function remove(name, where) {
  const detail = `The permissions of ${name} will be deleted, and its connections closed.`;
  if (!await confirm(`Delete ${name}?`, detail)) return;
  if (await attempt(`User ${name} deleted`, () => del(where))) go("admin", "users");
}
