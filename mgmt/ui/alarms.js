// The alarm banner, shown on every page while an alarm or a network partition lasts.
//
// It refreshes independently, with that of a standby, even if page refresh is off. Users with the
// tag monitoring see details of the nodes; others see the result of the health check.

import {get} from "./api.js";
import {seen, silence} from "./cluster.js";
import {bytes} from "./format.js";
import {interval_ms} from "./live.js";
import {mayMonitor, session} from "./session.js";
import {hideStandby, refreshStandby} from "./standby.js";

const EVERY_MS = 5000;
const COLUMNS = "name,running,answering,partitions,mem_alarm,mem_used,mem_limit,"
  + "disk_free_alarm,disk_free,disk_free_limit";

let timer = null;

// No requests while the tab is hidden; an update follows when it becomes visible.
document.addEventListener("visibilitychange", () => watch());

export async function watch() {
  clearTimeout(timer);
  const user = session.user;
  if (!user || document.hidden) return;
  let reasons;
  try {
    [reasons] = await Promise.all([mayMonitor() ? ofNodes() : ofHealthCheck(), refreshStandby()]);
  } catch (error) {
    reasons = error.status ? [] : [`Cannot refresh: ${error.message}`];
  }
  if (session.user !== user) return;
  show(reasons);
  clearTimeout(timer);
  timer = setTimeout(watch, Math.min(EVERY_MS, interval_ms() || EVERY_MS));
}

export function unwatch() {
  clearTimeout(timer);
  show([]);
  hideStandby();
}

async function ofNodes() {
  const nodes = await get("nodes", {columns: COLUMNS});
  seen(nodes);
  return nodes.flatMap((node) => [
    node.partitions?.length && `Network partition: ${node.name} has gone on without `
      + node.partitions.join(", "),
    silence(node) && `${node.name} ${silence(node)}`,
    node.mem_alarm && `${node.name} is low on memory (${bytes(node.mem_used)} of `
      + `${bytes(node.mem_limit)} in use): publishers are blocked`,
    node.disk_free_alarm && `${node.name} is low on disk (${bytes(node.disk_free)} free, less than `
      + `${bytes(node.disk_free_limit)}): publishers are blocked`,
  ]).filter(Boolean);
}

async function ofHealthCheck() {
  const {alarms = []} = await get("health/checks/alarms");
  return alarms.map((one) => `${one.node} is low on ${one.resource}: publishers are blocked`);
}

function show(reasons) {
  const banner = document.getElementById("alarm");
  const text = reasons.join(". ");
  if (banner.textContent !== text) banner.textContent = text;
  banner.hidden = !text;
}
