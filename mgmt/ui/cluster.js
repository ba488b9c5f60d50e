// The nodes of the cluster, as the alarm banner saw them last (alarms.js).
//
// Users without the tag monitoring may not see nodes; for them there is one.

import {h} from "./dom.js";
import {to} from "./router.js";

let names = [];

export function seen(nodes) {
  names = nodes.map((node) => node.name);
}

export const nodeNames = () => names;

export const hasSeveralNodes = () => names.length > 1;

// A column for the node that an object is on, which is shown if there are several.
export const nodeColumn = {key: "node", title: "Node", minor: true,
  get isExtra() {
    return !hasSeveralNodes();
  },
  cell: (row) => (row.node && h("a", {href: to("nodes", row.node)}, row.node))};

// The same for the facts about one object.
export const aboutNode = (row) => (hasSeveralNodes() ? {Node: nodeColumn.cell(row)} : {});

// Why a node of /api/nodes shows nothing of itself; null if it does.
export function silence(node) {
  if (node.running === false) return "is down";
  return node.answering === false ? "does not answer: what it has is not shown" : null;
}
