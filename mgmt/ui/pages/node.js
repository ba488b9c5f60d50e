// A single node: limits, memory, and files.

import {get, path} from "../api.js";
import {bars, meter, stacked} from "../bars.js";
import {Chart} from "../chart.js";
import {hasSeveralNodes, silence} from "../cluster.js";
import {facts, h, panel, render, table} from "../dom.js";
import {bytes, count, duration} from "../format.js";
import {refreshNow} from "../live.js";
import {Period} from "../period.js";
import {route} from "../router.js";
import {values} from "../samples.js";
import {mayMonitor} from "../session.js";

// Groups the API's memory categories by what this node can measure. RabbitMQ has more categories.
const MEMORY = [
  ["Queues", "--one", ["queue_procs", "quorum_queue_procs", "stream_queue_procs", "binary",
    "msg_index"]],
  ["Connections", "--two", ["connection_readers", "connection_writers", "connection_other"]],
  ["Channels", "--three", ["connection_channels"]],
  ["Code", "--four", ["code", "atom"]],
  ["Statistics", "--five", ["metrics", "mgmt_db"]],
  ["Other", "--six", ["other_proc", "other_system", "other_ets", "mnesia", "plugins",
    "allocated_unused", "reserved_unallocated"]],
];

route("nodes/:name", ({name}) => {
  if (!mayMonitor()) {
    return {title: "Access refused",
      element: h("p", {}, "Your user's tags do not permit this page.")};
  }
  const parts = {about: h("div"), limits: h("div"), memory: h("div"), listeners: h("div"),
    software: h("div")};
  const memory = new Chart("Memory in use", bytes);
  const disk = new Chart("Free disk space", bytes);
  const files = new Chart("File descriptors and sockets", count);
  const period = new Period(refreshNow, true);
  const element = h("div", {}, panel("Overview", parts.about),
    h("div", {class: "grid"}, panel("Resource limits", parts.limits),
      panel("Memory details", parts.memory)),
    period.element, h("div", {class: "grid"}, memory.element, disk.element, files.element),
    h("div", {class: "grid"}, panel("Ports and contexts", parts.listeners),
      panel("Applications", parts.software)));
  return {title: `Node ${name}`, element, async refresh() {
    const [row, found] = await Promise.all([
      get(path("nodes", name), {...period.query("node_stats"), memory: true}),
      get("overview", {columns: "listeners,contexts"})]);
    if (silence(row)) {
      render(parts.about, h("p", {class: "bad"}, `This node ${silence(row)}.`));
      return;
    }
    render(parts.about, aboutNode(row));
    render(parts.limits, nodeMeters(row));
    render(parts.memory, memoryOf(row.memory, row.memory_estimated));
    memory.draw({"In use": values(row, "mem_used")});
    disk.draw({Free: values(row, "disk_free")});
    files.draw({"File descriptors": values(row, "fd_used"), Sockets: values(row, "sockets_used")});
    const ofNode = (rows) => rows.filter((one) => one.node === name);
    render(parts.listeners, listenerTable(
      {listeners: ofNode(found.listeners), contexts: ofNode(found.contexts)}));
    render(parts.software, table("Applications", ["Name", "Version"],
      row.applications.map((one) => [one.name, one.version])));
  }};
});

function aboutNode(row) {
  return facts({
    "Uptime": duration(row.uptime), "OS process ID": row.os_pid, Cores: count(row.processors),
    Partitions: row.partitions.length ? row.partitions.join(", ") : "none",
    "Memory alarm": alarm(row.mem_alarm), "Disk alarm": alarm(row.disk_free_alarm),
    "Data directory": h("code", {}, row.db_dir || "none"),
    "Log files": row.log_files.length ? row.log_files.map((one) => h("code", {}, one)) : "none",
    "Plugins": row.enabled_plugins.join(", "),
  });
}

const alarm = (isOn) => h("span", {class: `state ${isOn ? "bad" : "good"}`}, isOn ? "yes" : "no");

// estimated: the categories that the node does not measure.
function memoryOf(breakdown, estimated = []) {
  const mark = (keys) =>
    (keys.some((key) => breakdown[key] > 0 && estimated.includes(key)) ? " (estimate)" : "");
  const parts = MEMORY.map(([name, colour, keys]) => {
    const value = keys.reduce((sum, key) => sum + (breakdown[key] ?? 0), 0);
    return {name, colour, value, text: `${name}: ${bytes(value)}${mark(keys)}`};
  });
  const all = Object.entries(breakdown)
    .filter(([, value]) => typeof value === "number" && value > 0)
    .sort(([, one], [, other]) => other - one)
    .map(([key, value]) => ({label: key.replaceAll("_", " "), value,
      text: `${bytes(value)}${mark([key])}`}));
  return [...stacked("Memory", parts),
    h("p", {class: "quiet"}, `Total: ${bytes(breakdown.total.rss)}, measured. `
      + `Calculation strategy: ${breakdown.strategy}.`),
    bars("Memory by category", all)];
}

// Parts shared with the overview

export function nodeMeters(node) {
  return [
    meter("Memory", node.mem_used, node.mem_limit, bytes, node.mem_alarm), diskMeter(node),
    meter("File descriptors", node.fd_used, node.fd_total, count),
    meter("Sockets", node.sockets_used, node.sockets_total, count),
  ];
}

// Free space relative to the limit below which publishers are blocked.
function diskMeter(node) {
  const share = Math.min(1, node.disk_free_limit / Math.max(1, node.disk_free));
  const kind = node.disk_free_alarm ? "over" : share > 0.5 ? "near" : "";
  const text = `${bytes(node.disk_free)} free, limit ${bytes(node.disk_free_limit)}`;
  return h("div", {class: "measure", "data-key": "Disk"},
    h("div", {class: "row apart"}, h("span", {}, "Disk"), h("span", {class: "quiet"}, text)),
    h("div", {class: `meter ${kind}`.trim(), role: "meter", "aria-label": "Disk",
      "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(share * 100),
      "aria-valuetext": text},
    h("span", {style: {width: `${(share * 100).toFixed(2)}%`}})));
}

export function listenerTable({listeners, contexts = []}) {
  const node = hasSeveralNodes() ? ["Node"] : [];
  return [
    table("Listeners", [...node, "Protocol", "Address", "Port"], listeners.map(
      (one) => [...node.map(() => one.node), one.protocol, one.ip_address, one.port])),
    contexts.length > 0 && h("p", {class: "quiet"},
      `Web contexts: ${contexts.map((one) => one.description).join(", ")}.`),
  ];
}
