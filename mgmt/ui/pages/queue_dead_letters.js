// Dead letters: where those of a queue go, and those that are in it.

import {get, path} from "../api.js";
import {exchangeLink} from "../declared.js";
import {facts, h, panel, render} from "../dom.js";
import {Workbench} from "./workbench.js";

const COLUMNS = "vhost,arguments,effective_policy_definition";

export function deadLettersPart(vhost, name) {
  const where = path("queues", vhost, name);
  const target = h("div");
  const bench = new Workbench(vhost, name, {isOfDeadLetters: true});
  const element = h("div", {}, panel("Dead letter exchange", target),
    panel("Dead letters in this queue", bench.element));
  return {element, async refresh() {
    render(target, targetOf(await get(where, {columns: COLUMNS})));
    await bench.begin();
  }};
}

// An argument takes precedence over a policy.
function targetOf({vhost, arguments: declared, effective_policy_definition: policy}) {
  const value = (name) => declared?.[`x-${name}`] ?? policy?.[name];
  const exchange = value("dead-letter-exchange");
  if (exchange === undefined) {
    return h("p", {class: "quiet"}, "No dead letter exchange: messages that this queue rejects or "
      + "drops are deleted.");
  }
  return facts({Exchange: exchangeLink(vhost, exchange),
    "Routing key": value("dead-letter-routing-key") ?? "that of the message"});
}
