// Policies, which set arguments of queues and exchanges, and operator policies, which limit them.
// Both are listed, added and changed in the same way.

import {del, get, path, put} from "../api.js";
import {code, h, panel} from "../dom.js";
import {button, changing, field, fields, input, object, objectField, select, vhostField}
  from "../forms.js";
import {json} from "../format.js";
import {refreshNow} from "../live.js";
import {mayAdminister, mayMakePolicies} from "../session.js";
import {List, vhostOr} from "../table.js";
import {administration, plainPanel, removal} from "./administration.js";

const LIMITS = {"max-length": 1000, "max-length-bytes": 1000000, "message-ttl": 60000,
  expires: 1800000, "delivery-limit": 20, overflow: "reject-publish",
  "delayed-retry-type": "all", "delayed-retry-min": 1000, "delayed-retry-max": 600000,
  "delayed-retry-multiplier": 2};
const KINDS = {
  policies: {
    title: "Policies", one: "policy", may: mayMakePolicies,
    appliesTo: ["all", "queues", "exchanges", "classic_queues", "quorum_queues", "streams"],
    known: {...LIMITS, "expire-on-time": true, "dead-letter-exchange": "",
      "dead-letter-routing-key": "", "alternate-exchange": "", "queue-mode": "lazy",
      "consumer-timeout": 1800000,
      "x-message-deduplication": true, "x-cache-size": 200000, "x-cache-ttl": 3600000,
      "max-age": "7D", "federation-upstream-set": "all"},
  },
  "operator-policies": {
    title: "Operator policies", one: "operator policy", may: mayAdminister,
    appliesTo: ["queues", "classic_queues", "quorum_queues", "streams"],
    known: {...LIMITS, "max-in-memory-length": 1000},
  },
};

for (const [kind, {title, one, may, ...options}] of Object.entries(KINDS)) {
  administration(kind, () => {
    const form = may() && saveForm(kind, one, options);
    const list = new List({caption: title, vhosts: true,
      load: (vhost) => get(vhostOr(kind)(vhost)), columns: columns(kind, one, form),
      key: (row) => `${row.vhost}\n${row.name}`, empty: `No ${title.toLowerCase()}.`});
    return {title, lists: [list], panels: [plainPanel(title, list.element),
      form ? panel(`Add / update an ${one}`.replace("an policy", "a policy"), form) : ""]};
  });
}

function columns(kind, one, form) {
  const all = [
    {key: "name", title: "Name"}, {key: "vhost", title: "Virtual host"},
    {key: "pattern", title: "Pattern", cell: (row) => code(row.pattern)},
    {key: "apply-to", title: "Apply to", cell: (row) => row["apply-to"].replaceAll("_", " ")},
    {key: "definition", title: "Definition", sortable: false, wide: true, cell: (row) =>
      Object.entries(row.definition).map(([key, value]) =>
        h("div", {"data-key": key}, code(`${key}: ${JSON.stringify(value)}`)))},
    {key: "priority", title: "Priority", number: true},
  ];
  if (!form) return all;
  const change = (row) => button("Update", () => fill(form, row),
    {"aria-label": `Update ${one} ${row.name}`});
  return [...all, {key: "change", title: "", sortable: false, cell: change},
    removal({label: (row) => `Delete ${one} ${row.name}`, done: "Deleted",
      detail: () => "It stops applying to matching queues and exchanges at once.",
      work: (row) => del(path(kind, row.vhost, row.name))})];
}

function saveForm(kind, one, {appliesTo, known}) {
  return changing(`Save ${one}`, {
    done: (values) => `Saved ${one} ${values.name}`, after: refreshNow,
    work: (values) => put(path(kind, values.vhost, values.name), {
      pattern: values.pattern, definition: object(values.definition, "The definition"),
      priority: Number(values.priority), "apply-to": values.apply}),
  }, fields(vhostField(), field("Name", input("name", {required: true})),
    field("Pattern", input("pattern", {required: true}), "regular expression of names"),
    field("Apply to", select("apply", appliesTo.map((to) => [to, to.replaceAll("_", " ")]))),
    field("Priority", input("priority", {type: "number", value: 0}), "the highest is applied")),
  objectField("Definition", "definition", known, {required: true}));
}

function fill(form, row) {
  const {vhost, name, pattern, apply, priority, definition} = form.elements;
  Object.assign(vhost, {value: row.vhost});
  Object.assign(name, {value: row.name});
  Object.assign(pattern, {value: row.pattern});
  Object.assign(apply, {value: row["apply-to"]});
  Object.assign(priority, {value: row.priority});
  Object.assign(definition, {value: json(row.definition)});
  form.scrollIntoView({block: "nearest"});
  pattern.focus();
}
