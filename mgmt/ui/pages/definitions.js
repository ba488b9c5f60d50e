// Definitions of all virtual hosts, or of one: export as a file, and import with a preview of the
// changes.

import {get, path, request} from "../api.js";
import {attempt, openForm} from "../dialog.js";
import {h, panel} from "../dom.js";
import {checkbox, field, form, input, vhostChoice} from "../forms.js";
import {plural} from "../format.js";

const SIGNS = {add: "+", change: "~", conflict: "!"};
const SHOWN_MAX = 500;
const KEPT_MS = 10_000;

const where = (vhost) => (vhost ? path("definitions", vhost) : "definitions");

export function definitionsPanel() {
  return panel("Definitions", h("div", {class: "halves"},
    h("section", {"aria-label": "Export definitions"}, h("h3", {}, "Export definitions"),
      exportForm()),
    h("section", {"aria-label": "Import definitions"}, h("h3", {}, "Import definitions"),
      importForm())));
}

const vhostField = () => field("Virtual host", vhostChoice({chosen: "", hasAll: true}),
  "all: also users, with the hashes of their passwords");

function exportForm() {
  return form("Download broker definitions", ({file, vhost}) =>
    attempt("Definitions exported", async () => {
      const content = JSON.stringify(await get(where(vhost)), null, 2);
      const href = URL.createObjectURL(new Blob([content], {type: "application/json"}));
      h("a", {href, download: file}).click();
      setTimeout(() => URL.revokeObjectURL(href), KEPT_MS);
    }), vhostField(),
  field("File name", input("file", {value: "definitions.json", required: true})));
}

function importForm() {
  const file = input("file", {type: "file", accept: "application/json,.json", required: true});
  return form("Preview changes", async (values, element) => {
    await review(await values.file.text(), where(values.vhost));
    element.reset();
  }, vhostField(), field("Definitions file", file));
}

async function review(text, target) {
  const plan = await request("POST", target, {raw: text, query: {dry_run: true}});
  const lines = plan.changes.slice(0, SHOWN_MAX).map(lineOf);
  if (plan.changes.length > SHOWN_MAX) {
    lines.push(h("li", {}, `… and ${plan.changes.length - SHOWN_MAX} more`));
  }
  const summary = plan.changes.length
    ? `${plural(plan.changes.length, "change")}; ${plan.unchanged} unchanged.`
    : `No changes: all ${plan.unchanged} definitions exist.`;
  const sure = checkbox("Import these definitions", "sure");
  sure.querySelector("input").required = true;
  const take = form("Import", async () => {
    const done = await attempt("Definitions imported", () => request("POST", target, {raw: text}));
    if (done) dialog.close();
  }, sure);
  const dialog = openForm("Preview of changes", take, h("p", {}, summary),
    h("ul", {class: "diff", tabindex: 0, "aria-label": "Changes"}, lines));
}

function lineOf({action, kind, name, vhost, from, to, reason}) {
  const place = vhost ? ` in ${vhost}` : "";
  const change = from ? `: ${JSON.stringify(from)} → ${JSON.stringify(to)}` : "";
  return h("li", {class: action}, `${SIGNS[action]} ${kind} ${name}${place}${change}`,
    reason ? ` (${reason})` : "");
}
