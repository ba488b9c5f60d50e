// The mirrors and members of queues: how many there are, and a drawing of the ring of mirrors.

import {h, svg} from "./dom.js";
import {clip, count, plural} from "./format.js";
import {to} from "./router.js";

// Columns that the tags need.
export const MIRRORS = ["slave_nodes", "synchronised_slave_nodes"];
export const MEMBERS = ["leader", "members", "online"];

const BOX_WIDTH = 216;
const BOX_HEIGHT = 44;
const NAME_MAX = 28;
const SAID_MAX = 36;
const MARGIN = 8;
// How far an arrow keeps from the centres of two boxes, as a share of its length.
const KEPT = 0.3;

// In lists: "+2" for mirrors that are synchronised, and another one for those that are not.
export function mirrorTags({slave_nodes: mirrors, synchronised_slave_nodes: synchronised = []}) {
  const others = (mirrors ?? []).filter((node) => !synchronised.includes(node));
  return [countTag(synchronised, "Synchronised mirrors", ""),
    countTag(others, "Unsynchronised mirrors", "bad")];
}

// The same for the other members of a quorum queue: those that run, and those that do not.
export function memberTags({leader, members = [], online = []}) {
  const others = members.filter((node) => node !== leader);
  return [countTag(others.filter((node) => online.includes(node)), "Online members", ""),
    countTag(others.filter((node) => !online.includes(node)), "Members that do not run", "bad")];
}

function countTag(nodes, what, kind) {
  const text = `${what}: ${nodes.join(", ")}`;
  return nodes.length > 0 && h("span", {class: `tag ${kind}`.trim(), title: text},
    h("span", {"aria-hidden": "true"}, `+${nodes.length}`), h("span", {class: "unseen"}, text));
}

// A member's role, and how much is on its way from it round the ring, if its node says so.
export const roleOf = ({leads, synchronised, joined}) => {
  if (leads) return "leader";
  if (!joined) return "joins";
  return synchronised ? "mirror" : "unsynchronised mirror";
};

export const underWay = ({pending}) =>
  (pending === null ? "not known" : `${count(pending)} in flight`);

// The ring, clockwise: each member sends to the next one.
export function ringView({members}) {
  const radius = {x: 40 + 62 * members.length, y: 30 + 26 * members.length};
  const centre = {x: radius.x + BOX_WIDTH / 2 + MARGIN, y: radius.y + BOX_HEIGHT / 2 + MARGIN};
  const places = members.map((member, number) => placeOf(member, number, members.length, centre,
    members.length > 1 ? radius : {x: 0, y: 0}));
  const [width, height] = [2 * centre.x, 2 * centre.y];
  return svg("svg", {class: "ring", width, height, viewBox: `0 0 ${width} ${height}`,
    role: "group", "aria-label": `Ring of ${plural(members.length, "member")}`},
  members.length > 1 && places.map((place, number) =>
    arrow(place, places[(number + 1) % places.length], members.length === 2)),
  places.map(boxOf));
}

function placeOf(member, number, total, centre, radius) {
  const angle = 2 * Math.PI * number / total - Math.PI / 2;
  return {member, x: centre.x + radius.x * Math.cos(angle),
    y: centre.y + radius.y * Math.sin(angle)};
}

function arrow(from, into, isPair) {
  // Between two members there are two arrows, side by side.
  const aside = isPair ? Math.sign(into.y - from.y) * BOX_HEIGHT / 2 : 0;
  const at = (share) => ({x: from.x + (into.x - from.x) * share + aside,
    y: from.y + (into.y - from.y) * share});
  const [begin, end] = [at(KEPT), at(1 - KEPT)];
  const length = Math.hypot(end.x - begin.x, end.y - begin.y);
  const [ahead, across] = [(end.x - begin.x) / length, (end.y - begin.y) / length];
  const wing = (side) => `M${round(end.x)} ${round(end.y)} `
    + `L${round(end.x - 8 * ahead + side * 4 * across)} `
    + round(end.y - 8 * across - side * 4 * ahead);
  return svg("g", {"data-key": `${from.member.node}\n${into.member.node}`, class: "edge"},
    svg("path", {d: `M${round(begin.x)} ${round(begin.y)} L${round(end.x)} ${round(end.y)}`}),
    svg("path", {class: "head", d: `${wing(1)} ${wing(-1)}`}),
    svg("title", {}, `${from.member.node} sends to ${into.member.node}`));
}

const round = (number) => number.toFixed(1);

function boxOf({member, x, y}) {
  const {node, leads, synchronised} = member;
  const kind = leads ? "leader" : synchronised ? "synchronised" : "lacking";
  const said = `${roleOf(member)}, ${underWay(member)}`;
  const [left, top] = [x - BOX_WIDTH / 2, y - BOX_HEIGHT / 2];
  return svg("a", {"data-key": node, href: to("nodes", node), class: `member ${kind}`,
    "aria-label": `${node}: ${said}`},
  svg("rect", {x: round(left), y: round(top), width: BOX_WIDTH, height: BOX_HEIGHT, rx: 8}),
  svg("text", {x: round(x), y: round(y - 4), "text-anchor": "middle"}, clip(node, NAME_MAX)),
  svg("text", {x: round(x), y: round(y + 13), class: "said", "text-anchor": "middle"},
    clip(said, SAID_MAX)),
  svg("title", {}, `${node}: ${said}`));
}
