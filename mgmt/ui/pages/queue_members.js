// The members of a quorum queue: what each is doing, how far it is, and which of them leads.

import {path, post} from "../api.js";
import {attempt} from "../dialog.js";
import {h, panel, table} from "../dom.js";
import {button} from "../forms.js";
import {bytes, count, plural} from "../format.js";
import {refreshNow} from "../live.js";
import {to} from "../router.js";

const HEADS = ["Node", "State", "Votes", "Term", "Last entry", "On disk", "Committed", "Applied",
  "Snapshot", "Lacks", ""];

// A panel for a quorum queue.
export function membersPanel({vhost, name, raft}) {
  if (!raft) return null;
  const {leader, reason, members} = raft;
  return panel("Members",
    leader === null && h("p", {class: "bad"}, `Nobody leads this queue: ${reason}.`),
    table("Members of the queue", HEADS, members.map((one) => cellsOf(vhost, name, leader, one))),
    members.filter((one) => one.reason && one.reason !== reason).map((one) =>
      h("p", {class: "bad"}, `${one.node}: ${one.reason}.`)));
}

const known = (number) => (number === null ? "–" : count(number));

const cellsOf = (vhost, name, leader, one) => [
  h("a", {href: to("nodes", one.node)}, one.node),
  stateOf(one), votes(one), known(one.term), known(one.log_index), known(one.last_written),
  known(one.commit_index), known(one.last_applied), known(one.snapshot_index), lacks(one),
  one.state === "follower" && leader !== null && button("Make leader",
    () => transfer(vhost, name, one.node))];

const NAMES = {nodedown: "node does not run", noproc: "not there", pre_vote: "asks for votes",
  candidate: "asks for votes"};

function stateOf({state, lag}) {
  const text = lag?.snapshot ? "receives a snapshot" : NAMES[state] ?? state;
  const isGood = state === "leader" || state === "follower";
  return h("span", {class: isGood ? "" : "bad"}, text);
}

const votes = ({membership}) =>
  ({voter: "yes", promotable: "when caught up", non_voter: "no"}[membership] ?? "–");

// What the leader knows of another member. Entries that come and go at once are not worth a word.
function lacks({lag, state}) {
  if (lag === null) return state === "leader" ? "–" : "unknown";
  if (lag.messages > 0) return `${plural(lag.messages, "message")}, ${bytes(lag.bytes)}`;
  return lag.entries > 0 ? plural(lag.entries, "entry", "entries") : "nothing";
}

async function transfer(vhost, name, node) {
  const where = `${path("queues", vhost, name)}/actions`;
  const done = `${node} leads the queue`;
  if (await attempt(done, () => post(where, {action: "transfer_leader", node}))) refreshNow();
}
