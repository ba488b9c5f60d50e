// The overview of a queue: charts, storage tiers, ages, its policy, and deletion.

import {del, get, path} from "../api.js";
import {bars, stacked} from "../bars.js";
import {Chart} from "../chart.js";
import {aboutNode} from "../cluster.js";
import {featureTags} from "../declared.js";
import {attempt, confirm} from "../dialog.js";
import {facts, h, panel, render, tag} from "../dom.js";
import {checkbox, dangerous, row} from "../forms.js";
import {bytes, count, duration, identifiers, plural, rate, time} from "../format.js";
import {refreshNow} from "../live.js";
import {Period} from "../period.js";
import {go, to} from "../router.js";
import {messageRates, queuedMessages} from "../samples.js";
import {conversionPanel} from "./queue_conversion.js";
import {membersPanel} from "./queue_members.js";
import {mirrorsPanel} from "./queue_mirrors.js";
import {Retries} from "./queue_retries.js";
import {stateOfQueue} from "./queues.js";

// From memory to disk only.
const TIERS = [["alpha", "in memory"], ["beta", "in memory and on disk"],
  ["gamma", "on disk, index in memory"], ["delta", "on disk only"], ["unacked", "unacknowledged"]];

export function overviewPart(vhost, name) {
  const where = path("queues", vhost, name);
  const parts = {about: h("div"), mirrors: h("div"), tiers: h("div"), ages: h("div"),
    conversion: h("div")};
  const retries = new Retries(vhost, name);
  const messages = new Chart("Queued messages", count);
  const flow = new Chart("Message rates", rate);
  const period = new Period(refreshNow);
  const element = h("div", {}, panel("Overview", parts.about), parts.mirrors, period.element,
    h("div", {class: "grid"}, messages.element, flow.element,
      panel("Storage tiers", parts.tiers), panel("Message age", parts.ages)),
    retries.element, parts.conversion,
    panel("Delete", dangerous("Delete this queue", () => remove(vhost, name, where))));
  return {element, async refresh() {
    const found = await get(where, period.query("lengths", "msg_rates"));
    render(parts.about, aboutQueue(found));
    render(parts.mirrors, mirrorsPanel(found) ?? membersPanel(found));
    messages.draw(queuedMessages(found));
    flow.draw(messageRates(found.message_stats));
    render(parts.tiers, tiersOf(found));
    render(parts.conversion, conversionPanel(found) || []);
    render(parts.ages, agesOf(found));
    await retries.refresh(found.messages_delayed);
  }};
}

function byPriority(one) {
  const levels = Object.entries(one.messages_by_priority).sort(([a], [b]) => b - a);
  return levels.map(([level, ready]) => `${level}: ${count(ready)}`).join(", ") || "–";
}

function aboutQueue(one) {
  const link = (part, text) => h("a", {href: to("queues", one.vhost, one.name, part)}, text);
  return [
    facts({"Virtual host": one.vhost, Type: one.type, ...aboutNode(one), State: stateOfQueue(one),
      Ready: link("messages", count(one.messages_ready)),
      Unacked: count(one.messages_unacknowledged), Total: count(one.messages),
      ...(one.type === "quorum" ? {"Dead letters kept": count(one.messages_dlx)} : {}),
      ...(one.delayed_retry ? {"Delayed retry": one.delayed_retry} : {}),
      ...("delivery_limit" in one ? {"Delivery limit": one.delivery_limit} : {}),
      ...(one.messages_delayed ? {Delayed: count(one.messages_delayed),
        "Next retry": time(one.next_delayed_at)} : {}),
      ...("messages_expired_on_time" in one
        ? {"Expired on time": count(one.messages_expired_on_time)} : {}),
      ...(one.message_deduplication_cache_info
        ? {"Duplicates refused": count(one.messages_duplicate),
          "Identifiers known": identifiers(one.message_deduplication_cache_info)} : {}),
      ...(one.messages_by_priority ? {"Ready by priority": byPriority(one)} : {}),
      Persistent: count(one.messages_persistent), "Message bytes": bytes(one.message_bytes),
      "Process memory": bytes(one.memory), Consumers: link("consumers", count(one.consumers)),
      "Idle since": one.idle_since ? time(Date.parse(one.idle_since)) : "–"}),
    stalledConsumers(one, link),
    features(one),
  ];
}

// Properties, arguments and policies.
export function features(one) {
  const policy = Object.entries(one.effective_policy_definition ?? {});
  return [
    h("p", {}, featureTags(one)),
    h("h3", {}, "Effective policy"),
    policy.length
      ? h("p", {}, policy.map(([key, value]) => tag(`${key}: ${JSON.stringify(value)}`)))
      : h("p", {class: "quiet"}, "No policy applies."),
  ];
}

function stalledConsumers({consumer_details: consumers = []}, link) {
  const stalled = consumers.filter((one) => one.stalled_since).length;
  return stalled > 0 && h("p", {class: "bad"}, link("consumers", plural(stalled, "consumer")),
    stalled === 1 ? " holds messages and acknowledges none."
      : " hold messages and acknowledge none.");
}

function tiersOf({tiers}) {
  if (!tiers) return h("p", {class: "quiet"}, "Not available.");
  return stacked("Storage tiers", TIERS.map(([name, meaning]) => {
    const {messages = 0, bytes: size} = tiers[name] ?? {};
    return {name, value: messages, colour: `--${name}`,
      text: `${name}, ${meaning}: ${count(messages)} (${bytes(size)})`};
  }));
}

function agesOf(one) {
  const {bounds_ms: bounds = [], counts = [], sum_ms: sum = 0} = one.time_in_queue ?? {};
  const delivered = counts.reduce((total, number) => total + number, 0);
  const label = (place) => {
    if (place < bounds.length) return `up to ${duration(bounds[place])}`;
    return `over ${duration(bounds.at(-1))}`;
  };
  return [
    facts({"Oldest ready message": duration(one.oldest_ready_age_ms),
      "Oldest unacked message": duration(one.oldest_unacked_age_ms),
      "Mean time in queue": delivered ? duration(sum / delivered) : "–"}),
    bars("Time in queue of delivered messages", counts.map((value, place) =>
      ({label: label(place), value, text: count(value)}))),
  ];
}

async function remove(vhost, name, where) {
  const unused = checkbox("Only if it has no consumers", "unused");
  const empty = checkbox("Only if it is empty", "empty");
  const {messages} = await get(where, {columns: "messages"});
  const detail = `The queue ${name} in ${vhost}, its bindings and ${plural(messages, "message")} `
    + "in it will be deleted.";
  if (!await confirm(`Delete ${name}?`, detail, "Delete", row(unused, empty))) return;
  const only = {};
  if (unused.querySelector("input").checked) only["if-unused"] = "true";
  if (empty.querySelector("input").checked) only["if-empty"] = "true";
  if (await attempt(`Queue ${name} deleted`, () => del(where, only))) go("queues");
}
