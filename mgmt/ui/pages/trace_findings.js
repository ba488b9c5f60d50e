// The findings of the last hour in this node's trace logs, with links to what they are about.

import {del, get, put} from "../api.js";
import {exchangeLink} from "../declared.js";
import {attempt} from "../dialog.js";
import {h, panel, render} from "../dom.js";
import {button} from "../forms.js";
import {count, time} from "../format.js";
import {refreshNow} from "../live.js";
import {to} from "../router.js";
import {administration} from "./administration.js";

const SEVERITIES = {bad: "Act", warning: "Look", note: "Note"};

administration("findings", () => {
  const shown = h("div", {});
  return {
    title: "Findings",
    panels: [panel("The last hour", shown)],
    refresh: async () => render(shown, ...content(await get("trace-findings"))),
  };
});

function content({state, reason, made_ms: made, events, findings}) {
  if (state !== "running") {
    return [h("p", {class: state === "failed" ? "bad" : ""}, notRunning(state, reason)),
      h("p", {}, button("Find problems", start))];
  }
  const stopping = h("p", {}, button("Stop finding", stop));
  if (made === null) return [h("p", {}, "The logs of the last hour are being read."), stopping];
  const said = findings.length ? `${count(findings.length)} findings`
    : "The last hour shows no problem";
  return [h("p", {}, `${said}, ${time(made)}, in ${count(events)} records.`),
    h("ol", {class: "findings"}, findings.map(finding)), stopping];
}

function notRunning(state, reason) {
  if (state === "failed") return `The analysis has failed: ${reason}.`;
  return "Analyses the logs for leveret analytics of the last hour and what is added to them,"
    + " beside the node, until this page was closed for 15 minutes.";
}

async function start() {
  if (await attempt("Analysis started", () => put("trace-findings"))) refreshNow();
}

async function stop() {
  if (await attempt("Analysis stopped", () => del("trace-findings"))) refreshNow();
}

function finding(one) {
  const {severity, vhost, since_ms: since, until_ms: until} = one;
  const {sentence, hurts, advice, evidence} = one;
  const when = since === null ? "" : `${time(since)} to ${until === null ? "now" : time(until)}`;
  return h("li", {class: severity, "data-key": `${one.kind}\n${vhost}\n${one.about.join("\n")}`},
    h("strong", {}, SEVERITIES[severity]),
    h("div", {}, h("p", {}, sentence), hurts && h("p", {}, hurts),
      advice && h("p", {}, `Do: ${advice}`),
      h("p", {class: "hint"}, [when, `virtual host ${vhost}`, evidence].filter(Boolean).join("; ")),
      links(one)));
}

function links({vhost, queues, exchanges}) {
  const made = queues.flatMap((name) => [
    h("a", {href: to("queues", vhost, name)}, `Queue ${name}`),
    h("a", {href: to("queues", vhost, name, "consumers")}, "its consumers"),
    h("a", {href: to("queues", vhost, name, "messages")}, "its messages"),
  ]);
  made.push(...exchanges.map((name) => h("span", {}, "Exchange ", exchangeLink(vhost, name))));
  return made.length ? h("p", {class: "links"}, made.flatMap((one) => [one, " "])) : "";
}
