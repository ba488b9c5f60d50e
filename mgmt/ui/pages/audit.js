// The audit log: who changed what on which node, and from where.

import {get} from "../api.js";
import {nodeColumn} from "../cluster.js";
import {code} from "../dom.js";
import {queueLink} from "../declared.js";
import {time} from "../format.js";
import {List} from "../table.js";
import {administration, plainPanel} from "./administration.js";

const LINES_MAX = 1000;
const PAUSE_MS = 15_000;

administration("audit", () => {
  const list = new List({
    caption: "Audit log", load, key: (row) => `${row.time}\n${row.place}`,
    empty: "No entries.",
    columns: [
      {key: "time", title: "Time", cell: (row) => time(row.time)},
      {key: "user", title: "User name"}, {key: "address", title: "Address"},
      nodeColumn, {key: "way", title: "Interface"}, {key: "action", title: "Action"},
      {key: "text", title: "Event", sortable: false, wide: true},
      {key: "vhost", title: "Virtual host", isExtra: true},
      {key: "kind", title: "Object type", isExtra: true},
      {key: "name", title: "Object name", isExtra: true, cell: nameOf},
      {key: "detail", title: "Details", sortable: false, wide: true,
        cell: (row) => (Object.keys(row.detail ?? {}).length ? code(row.detail) : "")}],
  });
  return {title: "Audit", lists: [list], pause_ms: PAUSE_MS,
    panels: [plainPanel("Audit log", list.element)]};
});

function nameOf(row) {
  return row.kind === "queue" ? queueLink(row.vhost, row.name) : row.name;
}

// Newest first. place: distinguishes lines of the same millisecond, counted from the oldest.
async function load() {
  const lines = await get("audit", {count: LINES_MAX});
  return lines.map((line, number) => ({...line, place: lines.length - number}));
}
