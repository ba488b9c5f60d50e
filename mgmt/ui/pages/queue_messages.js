// The messages of a queue: publishing, getting, browsing, moving and purging.

import {del, get, path, post} from "../api.js";
import {attempt, confirm} from "../dialog.js";
import {facts, fold, h, panel, render} from "../dom.js";
import {dangerous, field, form, input} from "../forms.js";
import {count, plural} from "../format.js";
import {refreshNow} from "../live.js";
import {requireOtherQueue} from "./destinations.js";
import {getForm, publishForm} from "./messages.js";
import {Workbench} from "./workbench.js";

const COUNTS = "messages,messages_ready,messages_unacknowledged";

export function messagesPart(vhost, name) {
  const where = path("queues", vhost, name);
  const totals = h("div");
  const bench = new Workbench(vhost, name);
  const element = h("div", {}, panel("Totals", totals),
    fold("Publish message", publishForm(vhost, name)), fold("Get messages", getForm(where)),
    panel("Browse messages", bench.element), panel("Move messages", moveForm(vhost, name, where)),
    panel("Purge", dangerous("Purge messages", () => purge(name, where))));
  return {element, async refresh() {
    const found = await get(where, {columns: COUNTS});
    render(totals, facts({Ready: count(found.messages_ready),
      Unacked: count(found.messages_unacknowledged), Total: count(found.messages)}));
    await bench.begin();
  }};
}

function moveForm(vhost, name, where) {
  return form("Move messages", async ({destination}) => {
    await requireOtherQueue(vhost, destination, name);
    const {messages_ready: ready} = await get(where, {columns: COUNTS});
    const detail = `All ${plural(ready, "ready message")} of ${name} will be moved to the end of `
      + `${destination}.`;
    if (!await confirm("Move all messages?", detail, "Move")) return;
    await attempt(`Messages moved to ${destination}`,
      () => moved(where, {all: true, destination}));
    refreshNow();
  }, field("To queue", input("destination", {required: true})));
}

async function moved(where, body) {
  const {done, failed} = await post(`${where}/messages/move`, body);
  if (failed.length) {
    throw new Error(`${done} moved, ${plural(failed.length, "message")} not: ${failed[0].reason}`);
  }
}

async function purge(name, where) {
  const {messages_ready: ready} = await get(where, {columns: COUNTS});
  const detail = `${plural(ready, "ready message")} in ${name} will be deleted, but no `
    + "unacknowledged ones.";
  if (!await confirm(`Purge ${name}?`, detail, "Purge")) return;
  await attempt("Messages purged", () => del(`${where}/contents`));
  refreshNow();
}
