// Definitions: download as a file, and upload with a preview of the changes.

import {get, path, request} from "../api.js";
import {attempt, openForm} from "../dialog.js";
import {h, panel} from "../dom.js";
import {button, checkbox, field, form, input} from "../forms.js";
import {plural} from "../format.js";

const SIGNS = {add: "+", change: "~", conflict: "!"};
const SHOWN_MAX = 500;
const KEPT_MS = 10_000;

export function definitionsPanel() {
  const file = input("file", {type: "file", accept: "application/json,.json", required: true});
  const take = form("Preview changes", async (values, element) => {
    const where = values.into ? path("definitions", values.into) : "definitions";
    await review(await values.file.text(), where);
    element.reset();
  }, field("File", file), field("Into one virtual host", input("into"), "all, if empty"));
  return panel("Definitions", h("div", {class: "halves"},
    h("div", {}, h("h3", {}, "Export definitions"),
      h("p", {class: "quiet"}, "All definitions, including password hashes."),
      button("Download broker definitions", save)),
    h("div", {}, h("h3", {}, "Import definitions"), take)));
}

async function save() {
  await attempt("Definitions exported", async () => {
    const content = JSON.stringify(await get("definitions"), null, 2);
    const href = URL.createObjectURL(new Blob([content], {type: "application/json"}));
    h("a", {href, download: "definitions.json"}).click();
    setTimeout(() => URL.revokeObjectURL(href), KEPT_MS);
  });
}

async function review(text, where) {
  const plan = await request("POST", where, {raw: text, query: {dry_run: true}});
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
    const done = await attempt("Definitions imported", () => request("POST", where, {raw: text}));
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
