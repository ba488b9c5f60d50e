// The mirrors of a queue: the ring that they are in, and bringing them what they lack.

import {path, post} from "../api.js";
import {meter} from "../bars.js";
import {attempt} from "../dialog.js";
import {h, panel, table} from "../dom.js";
import {button, row} from "../forms.js";
import {count} from "../format.js";
import {refreshNow} from "../live.js";
import {ringView, roleOf, underWay} from "../mirrors.js";
import {to} from "../router.js";

const HEADS = ["Node", "Role", "Receives from", "Sends to", "Broadcasts"];

// A panel for a queue that is mirrored.
export function mirrorsPanel({vhost, name, mirroring}) {
  if (!mirroring) return null;
  const {members, awaited, copies} = mirroring;
  return panel("Mirrors",
    awaited && h("p", {class: "bad"}, "Nobody leads this queue: it waits for node ",
      nodeLink(awaited), "."),
    members.length > 0 && h("div", {class: "graph", role: "region", tabindex: 0,
      "aria-label": "Ring of the queue's members"}, ringView(mirroring)),
    synchronising(vhost, name, members),
    members.length > 0 && table("Members of the ring", HEADS, members.map(cellsOf)),
    copies.length > 0 && h("p", {class: "quiet"},
      "Messages of this queue are also on the disks of ",
      copies.map(({node}, place) => [place > 0 && ", ", nodeLink(node)]), "."));
}

const nodeLink = (node) => (node === null ? "–" : h("a", {href: to("nodes", node)}, node));

const cellsOf = (member) => [nodeLink(member.node), roleOf(member), nodeLink(member.left),
  nodeLink(member.right), underWay(member)];

function synchronising(vhost, name, members) {
  const lacking = members.filter((one) => !one.synchronised);
  const running = lacking.filter(({sync}) => sync?.running);
  return lacking.length > 0 && h("div", {class: "toolbar"},
    running.map(({node, sync: {messages, expected}}) =>
      meter(`Synchronising ${node}`, messages, Math.max(messages, expected), count)),
    row(
      running.length < lacking.length && button("Synchronise",
        () => act(vhost, name, "sync", "Synchronising has begun")),
      running.length > 0 && button("Cancel synchronising",
        () => act(vhost, name, "cancel_sync", "Synchronising is cancelled"))));
}

async function act(vhost, name, action, done) {
  const where = `${path("queues", vhost, name)}/actions`;
  if (await attempt(done, () => post(where, {action}))) refreshNow();
}
