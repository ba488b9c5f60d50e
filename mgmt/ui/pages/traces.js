// Traces: what is published and delivered in a virtual host, written to files.

import {blob, del, get, path, put} from "../api.js";
import {attempt} from "../dialog.js";
import {code, h, panel} from "../dom.js";
import {button, changing, checkbox, field, fields, input, select, vhostField} from "../forms.js";
import {bytes, count} from "../format.js";
import {refreshNow} from "../live.js";
import {List, vhostOr} from "../table.js";
import {administration, removal} from "./administration.js";
import {TraceAnalysis} from "./trace_analysis.js";

// How long the browser has to start a download.
const KEPT_MS = 60_000;
const FORMATS = [["text", "text"], ["json", "JSON"],
  ["log", "log for leveret analytics"]];

administration("traces", () => {
  const traces = new List({
    id: "traces", caption: "All traces", small: true, vhosts: true,
    load: (vhost) => get(vhostOr("traces")(vhost)),
    key: (row) => `${row.vhost}\n${row.name}`, empty: "No traces.",
    columns: [
      {key: "name", title: "Name"}, {key: "vhost", title: "Virtual host"},
      {key: "format", title: "Format"},
      {key: "pattern", title: "Pattern", cell: (row) => code(row.pattern)},
      {key: "max_payload_bytes", title: "Payloads", cell: payloads},
      {key: "sample", title: "Sample", cell: (row) => (row.sample > 1 ? `1 in ${row.sample}` : "")},
      {key: "written", title: "Written messages", number: true, cell: (row) => count(row.written)},
      {key: "lost", title: "Lost messages", number: true, cell: (row) =>
        h("span", {class: row.lost ? "bad" : ""}, count(row.lost))},
      {key: "problem", title: "State", wide: true, cell: (row) =>
        h("span", {class: row.problem ? "bad" : "good"}, row.problem || "running")},
      removal({text: "Stop", label: (row) => `Stop trace ${row.name}`, done: "Trace stopped",
        detail: () => "Its log files are kept.",
        work: (row) => del(path("traces", row.vhost, row.name))}),
    ],
  });
  const files = new List({
    id: "files", caption: "Trace log files", small: true, load: () => get("trace-files"),
    key: (row) => row.name, empty: "No files.",
    columns: [
      {key: "name", title: "Name", wide: true, cell: (row) => code(row.name)},
      {key: "size", title: "Size", number: true, cell: (row) => bytes(row.size)},
      {key: "download", title: "", sortable: false, cell: (row) => button("Download",
        () => download(row.name), {"aria-label": `Download ${row.name}`})},
      removal({label: (row) => `Delete ${row.name}`, done: "File deleted",
        detail: () => "The file will be deleted.",
        work: (row) => del(path("trace-files", row.name))}),
    ],
  });
  const analysis = new TraceAnalysis();
  return {title: "Tracing", lists: [traces, files, analysis],
    panels: [panel("All traces", traces.element), panel("Add a new trace", addForm()),
      panel("Analysis", analysis.element), panel("Trace log files", files.element)]};
});

function payloads({format, payload, max_payload_bytes: most}) {
  if (format === "log" && payload !== "base64") return "none";
  return most === undefined ? "all" : bytes(most);
}

function addForm() {
  return changing("Add trace", {
    done: (values) => `Trace ${values.name} added`, after: refreshNow,
    work: (values) => put(path("traces", values.vhost, values.name), bodyOf(values)),
  }, fields(vhostField(), field("Name", input("name", {required: true})),
    field("Format", select("format", FORMATS)),
    field("Pattern", input("pattern", {required: true, value: "#"}),
      "such as #, publish.# or deliver.orders"),
    field("Max payload bytes", input("most", {type: "number", min: 0}), "empty: no limit"),
    field("Sample", input("sample", {type: "number", min: 1, value: 1}),
      "log format: one message of this many")),
  checkbox("Payloads in the log", "bodies"));
}

function bodyOf({format, pattern, most, sample, bodies}) {
  const body = {format, pattern};
  if (most !== "") body.max_payload_bytes = Number(most);
  if (format !== "log") return body;
  return {...body, sample: Number(sample), payload: bodies ? "base64" : "none"};
}

async function download(name) {
  await attempt(`${name} downloaded`, async () => {
    const href = URL.createObjectURL(await blob(path("trace-files", name)));
    h("a", {href, download: name.split("/").pop()}).click();
    setTimeout(() => URL.revokeObjectURL(href), KEPT_MS);
  });
}
