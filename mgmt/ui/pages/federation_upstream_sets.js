// Sets of federation upstreams, which policies name. They are parameters: lists of upstreams, each
// with settings that replace those of the upstream.

import {del, get, path, put} from "../api.js";
import {code, h, panel} from "../dom.js";
import {changing, field, fields, nameField, object, textarea, vhostField} from "../forms.js";
import {refreshNow} from "../live.js";
import {to} from "../router.js";
import {List} from "../table.js";
import {administration, removal} from "./administration.js";

const COMPONENT = "federation-upstream-set";
const LINE = /^(.*?)\s*(\{.*\})?$/;

administration("federation-upstream-sets", () => {
  const sets = new List({
    id: "upstream-sets", caption: "All upstream sets", vhosts: true, empty: "No upstream sets.",
    load: (vhost) => get(path("parameters", COMPONENT, ...(vhost ? [vhost] : []))),
    key: (row) => `${row.vhost}\n${row.name}`,
    columns: [
      {key: "name", title: "Name"}, {key: "vhost", title: "Virtual host"},
      {key: "value", title: "Upstreams", sortable: false, wide: true, cell: (row) =>
        [row.value].flat().map((one) => h("div", {}, code(lineOf(one))))},
      removal({label: (row) => `Delete upstream set ${row.name}`, done: "Upstream set deleted",
        detail: () => "The links of policies with this set end. Messages that wait for exchanges "
          + "here in the queues of these links are lost; those in queues of the upstreams stay.",
        work: (row) => del(path("parameters", COMPONENT, row.vhost, row.name))}),
    ],
  });
  return {title: "Federation upstream sets", lists: [sets],
    panels: [panel("All upstream sets", sets.element),
      panel("Add a new upstream set", explanation(), addForm())]};
});

function explanation() {
  return h("p", {class: "quiet"}, "A set is used by ",
    h("a", {href: to("admin", "policies")}, "policies"), " with ", code("federation-upstream-set"),
    " and its name. The set ", code("all"), " is always there: it has all ",
    h("a", {href: to("admin", "federation-upstreams")}, "upstreams"), " of the virtual host.");
}

function addForm() {
  return changing("Add upstream set", {
    done: (values) => `Upstream set ${values.name} added`, after: refreshNow,
    work: ({vhost, name, upstreams}) =>
      put(path("parameters", COMPONENT, vhost, name), {value: definition(upstreams)}),
  }, fields(vhostField(), nameField()),
  field("Upstreams", textarea("upstreams", {required: true}),
    "one a line; settings that replace its own may follow: rome {\"exchange\": \"there\"}"));
}

function lineOf({upstream, ...settings}) {
  return Object.keys(settings).length ? `${upstream} ${JSON.stringify(settings)}` : upstream;
}

function definition(text) {
  const lines = text.split("\n").map((line) => line.trim()).filter((line) => line);
  return lines.map((line) => {
    const [, upstream, settings] = LINE.exec(line);
    return {upstream, ...object(settings, `The settings of ${upstream}`)};
  });
}
