// The list of users, and adding one.

import {del, get, path, put} from "../api.js";
import {h, panel, tag} from "../dom.js";
import {button, changing, field, fields, input, select} from "../forms.js";
import {refreshNow} from "../live.js";
import {to} from "../router.js";
import {session} from "../session.js";
import {List} from "../table.js";
import {administration, plainPanel, removal} from "./administration.js";

const TAGS = ["administrator", "monitoring", "policymaker", "management", "impersonator"];
const KEEP = ["keep", "Unchanged"];
const SECRETS = [["password", "New password"], ["hash", "Hashed password"],
  ["none", "No password"]];

administration("users", () => {
  const list = new List({
    caption: "Users", load: usersWithVhosts, key: (row) => row.name,
    columns: [
      {key: "name", title: "Name", cell: (row) =>
        h("a", {href: to("admin", "users", row.name)}, row.name)},
      {key: "tags", title: "Tags", cell: (row) => row.tags.map((one) => tag(one))},
      {key: "vhosts", title: "Can access virtual hosts", cell: (row) =>
        row.vhosts.join(", ") || h("span", {class: "warn"}, "No access")},
      {key: "login", title: "Has password", cell: (row) => row.login},
      removal({label: (row) => `Delete user ${row.name}`, done: "User deleted",
        detail: (row) => `The permissions of ${row.name} will be deleted, and its connections `
          + "closed."
          + (row.name === session.user.name ? " This is your user: you will be logged out." : ""),
        work: (row) => del(path("users", row.name))}),
    ],
  });
  return {title: "Users", lists: [list], panels: [plainPanel("Users", list.element),
    panel("Add a user", addForm())]};
});

async function usersWithVhosts() {
  const [users, permissions] = await Promise.all([get("users"), get("permissions")]);
  const vhosts = new Map(users.map((user) => [user.name, []]));
  for (const one of permissions) vhosts.get(one.user)?.push(one.vhost);
  return users.map((user) => ({...user, login: user.password_hash ? "yes" : "no",
    vhosts: vhosts.get(user.name)}));
}

function addForm() {
  return changing("Add user", {
    done: (values) => `User ${values.name} added`, after: refreshNow,
    work: (values) => put(path("users", values.name), bodyOf(values)),
  }, fields(field("Name", input("name", {required: true})), secretFields(SECRETS)), tagsField());
}

// The fields of a password. choices: a list like SECRETS.
function secretFields(choices) {
  const choice = select("secret", choices);
  const text = input("password", {type: "password", autocomplete: "new-password"});
  const secret = field("New password", text);
  const settle = () => {
    const isAsked = ["password", "hash"].includes(choice.value);
    secret.hidden = !isAsked;
    text.required = isAsked;
    text.type = choice.value === "hash" ? "text" : "password";
    secret.querySelector("label").textContent =
      choice.value === "hash" ? "Hashed password" : "New password";
  };
  choice.onchange = settle;
  settle();
  return [field("Password", choice), secret];
}

function tagsField(tags = []) {
  const control = input("tags", {value: tags.join(", ")});
  const add = (name) => {
    const known = control.value.split(",").map((one) => one.trim()).filter(Boolean);
    control.value = [...new Set([...known, name])].join(", ");
    control.focus();
  };
  return h("div", {}, field("Tags", control, "separated by commas"),
    h("div", {class: "chips", role: "group", "aria-label": "Add to the tags"},
      TAGS.map((name) => button(name, () => add(name), {class: "chip"}))));
}

// current: the user being changed, whose unchanged values are kept.
function bodyOf({secret, password, tags}, current) {
  if (secret === "password") return {tags, password};
  if (secret === "hash") return {tags, password_hash: password};
  if (secret === "none") return {tags, password_hash: ""};
  const {password_hash, hashing_algorithm} = current;
  return {tags, password_hash, hashing_algorithm};
}

// The form that changes a user's password and tags.
export function changeForm(user) {
  return changing("Update user", {
    done: () => `User ${user.name} updated`, after: refreshNow,
    work: async (values) => {
      const current = await get(path("users", user.name));
      await put(path("users", user.name), bodyOf(values, current));
    },
  }, fields(secretFields([KEEP, ...SECRETS])), tagsField(user.tags));
}
