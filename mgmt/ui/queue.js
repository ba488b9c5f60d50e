// One queue: its messages over time, where they are, how old they are, who consumes, and what to do.

import {del, get, path, post} from "./api.js";
import {Chart, lengths, rates} from "./chart.js";
import {consumerTable} from "./clients.js";
import {attempt, confirm} from "./dialog.js";
import {field, form, h, input, numbers, panel, replace, select} from "./dom.js";
import {bindingList, features, refreshNow} from "./exchanges.js";
import {bytes, count, duration, json, rate} from "./format.js";
import {messageFields, object} from "./inputs.js";
import {go, route} from "./router.js";
import {workbench} from "./workbench.js";

const TIERS = [["alpha", "in memory"], ["beta", "in memory and on disk"], ["gamma", "index in memory"],
  ["delta", "on disk only"], ["unacked", "unacknowledged"]];

route("queues/:vhost/:name", ({vhost, name}) => {
  const where = path("queues", vhost, name);
  const parts = Object.fromEntries(["facts", "tiers", "ages", "consumers"].map((one) => [one, h("div")]));
  const messages = new Chart("Messages", count);
  const flow = new Chart("Rates", rate);
  const bindings = bindingList(`${where}/bindings`, vhost);
  const element = h("div", {}, panel("Queue", parts.facts),
    h("div", {class: "grid"}, h("section", {class: "panel"}, messages.element), h("section", {class: "panel"}, flow.element),
      panel("Where the messages are", parts.tiers), panel("Age", parts.ages)),
    panel("Consumers", parts.consumers), panel("Bindings", bindings.element), panel("Bind this queue", bindForm(vhost, name)),
    h("div", {class: "grid"}, panel("Publish to this queue", publishForm(vhost, name)), panel("Get messages", getForm(where))),
    panel("Messages and dead letters", workbench(vhost, name)), panel("Operations", operations(vhost, name, where)));
  return {title: `Queue ${name}`, element, async refresh() {
    const row = await get(where, {lengths_age: 60, lengths_incr: 5, msg_rates_age: 60, msg_rates_incr: 5});
    drawFacts(parts.facts, row);
    messages.draw({Ready: lengths(row.messages_ready_details), Unacked: lengths(row.messages_unacknowledged_details)});
    const stats = row.message_stats ?? {};
    flow.draw({Published: rates(stats.publish_details), Delivered: rates(stats.deliver_get_details),
      Acknowledged: rates(stats.ack_details), Redelivered: rates(stats.redeliver_details)});
    drawTiers(parts.tiers, row.tiers);
    drawAges(parts.ages, row);
    replace(parts.consumers, consumerTable(row.consumer_details));
    await bindings.refresh();
  }};
});

function drawFacts(element, row) {
  const policy = Object.keys(row.effective_policy_definition ?? {}).length ? h("div", {}, h("h3", {}, "Effective policy"),
    h("pre", {}, json(row.effective_policy_definition))) : "";
  replace(element, numbers({"Virtual host": row.vhost, State: row.state, Type: row.type, Ready: count(row.messages_ready),
    Unacked: count(row.messages_unacknowledged), Total: count(row.messages), Size: bytes(row.message_bytes),
    Memory: bytes(row.memory), Consumers: count(row.consumers), Persistent: count(row.messages_persistent)}),
  h("p", {}, features(row)), policy);
}

// One bar from memory to disk.
function drawTiers(element, tiers) {
  const total = TIERS.reduce((sum, [name]) => sum + (tiers?.[name]?.messages ?? 0), 0);
  const text = TIERS.map(([name, meaning]) => `${meaning} ${count(tiers?.[name]?.messages)}`).join(", ");
  replace(element, h("div", {class: "tiers", role: "img", "aria-label": text}, TIERS.map(([name]) => {
    const share = total ? 100 * (tiers[name]?.messages ?? 0) / total : 0;
    return h("span", {style: {width: `${share}%`, background: `var(--${name})`}});
  })), h("ul", {class: "legend"}, TIERS.map(([name, meaning]) => h("li", {}, h("i", {style: {background: `var(--${name})`}}),
    `${name}, ${meaning}: ${count(tiers?.[name]?.messages)} (${bytes(tiers?.[name]?.bytes)})`))));
}

function drawAges(element, row) {
  const histogram = row.time_in_queue ?? {bounds_ms: [], counts: []};
  const most = Math.max(1, ...histogram.counts);
  const bars = histogram.counts.map((value, place) => {
    const bound = histogram.bounds_ms[place];
    const label = bound === undefined ? "longer" : `up to ${duration(bound)}`;
    return h("tr", {}, h("th", {scope: "row"}, label), h("td", {class: "number"}, count(value)),
      h("td", {style: {width: "50%"}}, h("div", {class: "meter"}, h("span", {style: {width: `${100 * value / most}%`}}))));
  });
  replace(element, numbers({"Oldest ready": duration(row.oldest_ready_age_ms), "Oldest unacked": duration(row.oldest_unacked_age_ms)}),
    h("table", {}, h("caption", {}, "How long delivered messages had waited"), h("tbody", {}, bars)));
}

function bindForm(vhost, name) {
  return form("Bind", async (values) => {
    const done = await attempt("Bound", () => post(path("bindings", vhost, "e", values.source, "q", name),
      {routing_key: values.key, arguments: object(values.arguments)}));
    if (done) refreshNow();
  }, h("div", {class: "fields"}, field("From exchange", input("source", {required: true})), field("Routing key", input("key"))),
  field("Arguments", h("textarea", {name: "arguments", rows: 2}), "JSON"));
}

function publishForm(vhost, name) {
  return form("Publish", async (values) => {
    await attempt("Published", () => post(`${path("exchanges", vhost, "amq.default")}/publish`, {routing_key: name,
      payload: values.payload, payload_encoding: values.encoding, properties: object(values.properties, "The properties")}));
    refreshNow();
  }, messageFields());
}

function getForm(where) {
  const shown = h("div", {role: "status"});
  return h("div", {}, form("Get", async (values) => {
    try {
      const found = await post(`${where}/get`, {count: Number(values.count), ackmode: values.ackmode, encoding: values.encoding, truncate: 50000});
      replace(shown, found.length ? found.map((message, place) => h("div", {class: "message"},
        h("p", {}, h("b", {}, `Message ${place + 1}`), ` from ${message.exchange || "(default)"} with ${message.routing_key}`,
          message.redelivered ? h("span", {class: "tag"}, "redelivered") : ""),
        h("pre", {}, json(message.properties)), h("pre", {}, message.payload))) : h("p", {}, "The queue is empty."));
      refreshNow();
    } catch (error) {
      replace(shown, h("p", {class: "bad"}, error.message));
    }
  }, h("div", {class: "fields"}, field("How many", input("count", {type: "number", min: 1, max: 1000, value: 1})),
    field("Afterwards", select("ackmode", [["ack_requeue_true", "requeue (marked as redelivered)"], ["ack_requeue_false", "acknowledge: they are gone"],
      ["reject_requeue_true", "reject and requeue"], ["reject_requeue_false", "reject: dead-letter or drop"]])),
    field("Encoding", select("encoding", [["auto", "text if it is text"], ["base64", "base64"]])))), shown);
}

function operations(vhost, name, where) {
  const move = form("Move all messages", async (values) => {
    if (!await confirm("Move all messages?", `All ready messages of ${name} will be in ${values.destination}.`, "Move")) return;
    await attempt("Moved", () => post(`${where}/messages/move`, {all: true, destination: values.destination}));
    refreshNow();
  }, field("To queue", input("destination", {required: true})));
  const purge = h("button", {type: "button", class: "danger", onclick: async () => {
    if (!await confirm(`Purge ${name}?`, "All ready messages will be gone.", "Purge")) return;
    await attempt("Purged", () => del(`${where}/contents`));
    refreshNow();
  }}, "Purge");
  const remove = h("button", {type: "button", class: "danger", onclick: async () => {
    if (!await confirm(`Delete ${name}?`, `The queue ${name} in ${vhost}, its bindings and all its messages will be gone.`)) return;
    if (await attempt(`Queue ${name} deleted`, () => del(where))) go("queues");
  }}, "Delete the queue");
  return h("div", {}, move, h("div", {class: "row"}, purge, remove));
}
