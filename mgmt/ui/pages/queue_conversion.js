// The conversion of a queue to another type, while clients use it.

import {path, post} from "../api.js";
import {attempt, confirm} from "../dialog.js";
import {panel} from "../dom.js";
import {button} from "../forms.js";
import {refreshNow} from "../live.js";

const OTHER = {classic: "quorum", quorum: "classic"};

// A panel for a queue of a type that can be converted.
export function conversionPanel({vhost, name, type, state}) {
  const to = OTHER[type];
  return to && state !== "down" && panel("Type",
    button(`Make it a ${to} queue`, () => convert(vhost, name, to)));
}

async function convert(vhost, name, to) {
  const detail = `Clients go on using ${name}, and see a short pause. Programs that declare it `
    + "with its present type are refused from then on.";
  if (!await confirm(`Make ${name} a ${to} queue?`, detail, "Convert")) return;
  const where = `${path("queues", vhost, name)}/actions`;
  const done = `${name} is a ${to} queue`;
  if (await attempt(done, () => post(where, {action: "convert", to}))) refreshNow();
}
