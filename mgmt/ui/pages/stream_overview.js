// The overview of a stream: its log, what retention keeps, its replicas, charts, and deletion.

import {del, get, path, post, request} from "../api.js";
import {Chart} from "../chart.js";
import {aboutNode, hasSeveralNodes, nodeNames} from "../cluster.js";
import {attempt, confirm, confirmByName} from "../dialog.js";
import {facts, h, panel, render, table} from "../dom.js";
import {button, changing, dangerous, field, fields, select} from "../forms.js";
import {bytes, count, duration, plural, rate, time} from "../format.js";
import {refreshNow} from "../live.js";
import {Period} from "../period.js";
import {go, to} from "../router.js";
import {consumerLags, messageRates, queuedMessages} from "../samples.js";
import {mayAdminister} from "../session.js";
import {features} from "./queue_overview.js";
import {stateOfQueue} from "./queues.js";

const HEADS = ["Node", "Role", "State", "Epoch", "First offset", "Last offset", "Committed", "Lag",
  "Segments", "Size", "Readers", "Oldest message", ""];

export function streamOverview(vhost, name) {
  const where = path("queues", vhost, name);
  const parts = {about: h("div"), log: h("div"), replicas: h("div")};
  const messages = new Chart("Queued messages", count);
  const flow = new Chart("Message rates", rate);
  const lags = new Chart("Lag of consumers", count);
  const period = new Period(refreshNow);
  const element = h("div", {}, panel("Overview", parts.about), parts.log, parts.replicas,
    period.element, h("div", {class: "grid"}, messages.element, flow.element, lags.element),
    panel("Delete", dangerous("Delete this stream", () => remove(vhost, name, where))));
  return {element, async refresh() {
    const found = await get(where, period.query("lengths", "msg_rates"));
    render(parts.about, aboutStream(found));
    render(parts.log, logPanel(found));
    render(parts.replicas, replicasPanel(found));
    messages.draw(queuedMessages(found));
    flow.draw(messageRates(found.message_stats));
    lags.draw(consumerLags(found));
  }};
}

function aboutStream(one) {
  return [facts({"Virtual host": one.vhost, Type: one.type, ...aboutNode(one),
    State: stateOfQueue(one), Consumers:
      h("a", {href: to("queues", one.vhost, one.name, "consumers")}, count(one.consumers)),
    Readers: count(Object.values(one.readers ?? {}).reduce((total, part) => total + part, 0)),
    "Idle since": one.idle_since ? time(Date.parse(one.idle_since)) : "–"}),
  features(one)];
}

async function remove(vhost, name, where) {
  const {messages} = await get(where, {columns: "messages"});
  const detail = `The stream ${name} in ${vhost}, its bindings and ${plural(messages, "message")} `
    + "in it will be deleted.";
  const isSure = messages ? await confirmByName(`Delete ${name}?`, detail, name)
    : await confirm(`Delete ${name}?`, detail);
  if (isSure && await attempt(`Stream ${name} deleted`, () => del(where))) go("queues");
}

const leaderOf = ({raft}) => raft?.members.find((one) => one.node === raft.leader);

// What the stream has; all but the number of messages by the member of the leader.
function logPanel(queue) {
  const leader = leaderOf(queue) ?? {};
  const {oldest_ms: oldest, size_bytes: size, segments} = leader;
  const none = queue.messages === 0;
  return panel("Log", facts({
    Messages: count(queue.messages), "First offset": none ? "–" : count(leader.first_offset),
    "Last offset": none ? "–" : count(leader.committed_offset),
    "Not committed yet": count(behind(leader.committed_offset, leader.offset)),
    Segments: count(segments), Size: bytes(size),
    "Oldest message": oldest ? age(oldest) : "–",
  }), retention(queue, leader));
}

const age = (since) => `${duration(Math.max(0, Date.now() - since))} ago`;

// How many offsets one is before another one.
const behind = (one, other) => (Number.isInteger(one) && Number.isInteger(other)
  ? Math.max(0, other - one) : undefined);

// What limits the stream, by its policy or its arguments, and what that means for its messages.
function retention({arguments: declared = {}, effective_policy_definition: policy = {}}, leader) {
  const limit = (name) => policy[name] ?? declared[`x-${name}`];
  const [maxAge, maxBytes] = [limit("max-age"), limit("max-length-bytes")];
  const {expires_ms: expires, segments, size_bytes: size} = leader;
  const lines = [];
  if (maxAge !== undefined) {
    lines.push(`Messages are kept for ${maxAge}, and go by whole segments.`
      + (expires ? when(expires, segments) : ""));
  }
  if (maxBytes !== undefined) {
    lines.push(`Up to ${bytes(Number(maxBytes))} are kept`
      + (size === undefined || size === null ? "."
        : `, of which ${bytes(size)} are used; the oldest segments go above it.`));
  }
  if (!lines.length) lines.push("All messages are kept: the stream has neither max-age nor "
    + "max-length-bytes.");
  return lines.map((line) => h("p", {"data-key": line.slice(0, 12)}, line));
}

// A segment goes when its last message is too old. The newest segment gets more messages.
const when = (at, segments) => (segments > 1 ? ` The oldest segment goes at ${time(at)}.`
  : ` All go at ${time(at)} if no more are published.`);

// Replicas

function replicasPanel(queue) {
  const {vhost, name, raft} = queue;
  if (!raft) return null;
  const {leader, reason, members} = raft;
  return panel("Replicas",
    leader === null && h("p", {class: "bad"}, `Nobody leads this stream: ${reason}.`),
    table("Replicas of the stream", HEADS, members.map((one) => cellsOf(queue, one))),
    members.filter((one) => one.reason && one.reason !== reason).map((one) =>
      h("p", {class: "bad"}, `${one.node}: ${one.reason}.`)),
    mayAdminister() && hasSeveralNodes() && addForm(vhost, name, members));
}

function cellsOf(queue, one) {
  const {raft, vhost, name} = queue;
  const isLeader = one.node === raft.leader;
  return [
    h("a", {href: to("nodes", one.node)}, one.node), isLeader ? "writer" : "replica",
    stateOf(one), count(one.term), count(one.first_offset), offsetOf(one.offset),
    offsetOf(one.committed_offset), lagOf(one, leaderOf(queue)), count(one.segments),
    bytes(one.size_bytes), count(one.readers), one.oldest_ms ? age(one.oldest_ms) : "–",
    mayAdminister() && raft.members.length > 1 && h("div", {class: "row"},
      one.state === "follower" && raft.leader !== null && button("Make writer",
        () => transfer(vhost, name, one.node), {"aria-label": `Make ${one.node} the writer`}),
      dangerous("Delete", () => removeReplica(vhost, name, one.node),
        {"aria-label": `Delete the replica on ${one.node}`}))];
}

const offsetOf = (offset) => (offset === -1 ? "–" : count(offset));

const NAMES = {leader: "running", follower: "running", nodedown: "node does not run",
  noproc: "not there", pre_vote: "asks for votes", candidate: "asks for votes"};

function stateOf({state, lag, membership}) {
  const isGood = state === "leader" || state === "follower";
  if (lag?.snapshot) return h("span", {class: "warn"}, "receives the oldest segment");
  const isNew = isGood && membership === "promotable";
  return h("span", {class: isGood ? "" : "bad"},
    isNew ? "catching up" : NAMES[state] ?? state);
}

// What a replica has not stored of what the leader has.
function lagOf(one, leader) {
  if (one === leader) return "–";
  const messages = behind(one.offset, leader?.offset);
  if (messages === undefined) return "unknown";
  return messages ? plural(messages, "message") : "nothing";
}

async function transfer(vhost, name, node) {
  const where = `${path("queues", vhost, name)}/actions`;
  const done = `${node} leads the stream`;
  if (await attempt(done, () => post(where, {action: "transfer_leader", node}))) refreshNow();
}

const replicas = (vhost, name, change) =>
  `${path("queues", "stream", vhost, name)}/replicas/${change}`;

async function removeReplica(vhost, name, node) {
  const detail = `${node} will have no messages of ${name} any more. The other replicas keep them.`;
  if (!await confirm("Delete this replica?", detail)) return;
  const work = () => request("DELETE", replicas(vhost, name, "delete"), {body: {node}});
  if (await attempt(`Replica on ${node} deleted`, work)) refreshNow();
}

function addForm(vhost, name, members) {
  const taken = new Set(members.map((one) => one.node));
  const free = nodeNames().filter((node) => !taken.has(node));
  if (!free.length) return false;
  return h("div", {"data-key": "add"}, changing("Add replica", {
    done: ({node}) => `Replica on ${node} added`, after: refreshNow,
    work: ({node}) => post(replicas(vhost, name, "add"), {node}),
  }, fields(field("Add a replica on node", select("node", free)))));
}
