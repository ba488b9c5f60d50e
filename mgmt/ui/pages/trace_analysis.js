// The analysis of this node's trace logs: starts it, shows its progress, and opens its report.

import {del, get, post, put} from "../api.js";
import {attempt} from "../dialog.js";
import {h, render} from "../dom.js";
import {button, field, fields, form, input, vhostChoice} from "../forms.js";
import {count, time} from "../format.js";
import {refreshNow} from "../live.js";
import {to} from "../router.js";

export class TraceAnalysis {
  constructor() {
    this.status = h("div", {});
    this.element = h("div", {}, this.status, h("p", {}, "What goes wrong now: ",
      h("a", {href: to("admin", "findings")}, "findings of the last hour"), "."), startForm());
  }

  async refresh() {
    const found = await get("trace-analysis");
    render(this.status, ...statusOf(found));
  }
}

function startForm() {
  const hint = "such as 2026-01-31T07:00, UTC; empty: no limit";
  return form("Analyse", async ({vhost, from, to: until}) => {
    const wanted = {vhost: vhost || null, from: from || null, to: until || null};
    if (await attempt("Analysis started", () => put("trace-analysis", wanted))) await refreshNow();
  }, fields(field("Analysed virtual host", vhostChoice({chosen: "", hasAll: true})),
    field("From", input("from"), hint), field("To", input("to"), "not included")));
}

function statusOf(found) {
  const {state, has_report: hasReport} = found;
  const report = hasReport ? [h("p", {}, button("Open report", openReport))] : [];
  if (state === "running") return [...running(found), ...report];
  return [h("p", {}, words(found)), ...report];
}

function words({state, reason, done, has_report: hasReport, ended_ms: ended}) {
  if (state === "failed") return h("span", {class: "bad"}, `The analysis has failed: ${reason}.`);
  if (state === "cancelled") return "The analysis was cancelled.";
  if (state === "done" && done) {
    return `${count(done.events)} records of ${count(done.files)} files were analysed by`
      + ` ${time(ended)}.${done.rejected ? ` ${count(done.rejected)} lines were rejected.` : ""}`;
  }
  return hasReport ? "There is a report of an earlier analysis."
    : "Makes a report of the logs for leveret analytics: findings, charts and tables. It runs"
      + " beside the node, with low priority.";
}

function running({progress}) {
  const cancel = button("Cancel analysis", async () => {
    if (await attempt("Analysis cancelled", () => del("trace-analysis"))) refreshNow();
  });
  if (!progress) return [h("p", {}, "The analysis is starting. "), h("p", {}, cancel)];
  const {number, steps, name, took, part, events, left} = progress;
  const done = number - (took === null ? 1 - (part ?? 0) : 0);
  const share = part === null ? "" : `, ${Math.round(part * 100)}%`;
  const known = events === null ? "" : `${count(events)} records, `;
  return [
    h("p", {}, h("progress", {max: steps, value: done, "aria-label": "Progress of the analysis"})),
    h("p", {}, `Step ${number} of ${steps}: ${name}${share}; ${known}about ${inTime(left)} left.`),
    h("p", {}, cancel),
  ];
}

const inTime = (seconds) => (seconds > 90 ? `${Math.round(seconds / 60)} min`
  : `${Math.round(seconds)} s`);

// The page of the report has no login of its own, so a link is made that is valid once.
async function openReport() {
  // A window that is opened later, when the link has come, is blocked by browsers.
  const opened = window.open("", "_blank");
  const isShown = await attempt("Report opened", async () => {
    const {link} = await post("trace-analysis/report/link");
    const address = new URL(`api/${link}`, document.baseURI);
    if (opened) opened.location = address;
    else window.location = address;
  });
  if (!isShown) opened?.close();
}
