// The audit log: who changed what on this node, and from where.

import {get} from "../api.js";
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
      {key: "user", title: "User"}, {key: "address", title: "Address"},
      {key: "way", title: "By"}, {key: "action", title: "Action"},
      {key: "vhost", title: "Virtual host"}, {key: "kind", title: "Object"},
      {key: "name", title: "Name", cell: nameOf},
      {key: "text", title: "What was done", sortable: false, wide: true},
      {key: "detail", title: "Details", sortable: false, wide: true,
        cell: (row) => code(row.detail)}],
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
