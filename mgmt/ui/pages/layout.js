// Computes the layout of the bindings diagram. Boxes are in layers from left to right: an exchange
// is to the right of all exchanges that are bound to it and of other brokers that send to it,
// queues are behind them, and other brokers to which messages go are last. Lines of dead letters
// and shovels may lead back from queues, and place nothing: these leave their box at its left and
// reach the other at its right; those within a layer have both ends at the right. A line that
// crosses a layer gets a slot between its boxes, so that it does not seem to start at one. Within a
// layer, boxes are ordered by the positions of their neighbours, so that few lines cross. Each line
// has its own slot at both of its boxes, and the height of a box is proportional to its lines, so
// that labels at the ends do not overlap.

export const BOX_WIDTH = 210;
const LAYER_GAP = 220;
const ROW = 17;
const BOX_MIN = 26;
// Two lines of text.
const QUEUE_MIN = 40;
const BOX_GAP = 10;
const MARGIN = 10;
// The kinds of boxes behind all exchanges, in the order of their layers.
const LATE = ["queue", "elsewhere"];
const SWEEPS = 4;

// found: edges as topology.js makes them. loose: names of queues without an edge. Returns {boxes,
// edges, width, height}, where an edge has parts with {x1, y1, x2, y2, leaves, arrives}: the
// direction at its ends, 1 to the right and -1 to the left.
export function layOut(found, loose) {
  const edges = edgesOf(found);
  const boxes = boxesOf(edges, loose);
  const layers = layersOf(boxes, edges);
  for (const edge of edges) divide(edge, layers);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) order(layers, sweep % 2 === 0);
  place(layers);
  for (const box of layers.flat()) attach(box);
  const isLastBeside = layers.at(-1)?.some((box) => box.right.length);
  const gaps = layers.length - (isLastBeside ? 0 : 1);
  const width = layers.length * BOX_WIDTH + gaps * LAYER_GAP + 2 * MARGIN;
  const lowest = Math.max(0, ...layers.flat().map((box) => box.y + box.height));
  return {boxes: [...boxes.values()], edges, width: Math.max(width, 0), height: lowest + MARGIN};
}

// One edge for all edges of a kind between the same two boxes, with their routing keys.
function edgesOf(found) {
  const edges = new Map();
  for (const one of found) {
    const key = `${one.kind}\n${one.from}\n${one.into}`;
    const edge = edges.get(key) ?? {...one, keys: []};
    edge.keys.push(one.routing_key);
    edges.set(key, edge);
  }
  return [...edges.values()];
}

function boxesOf(edges, loose) {
  const boxes = new Map();
  const box = (key) => {
    const kind = key.split(" ", 1)[0];
    if (!boxes.has(key)) {
      const name = key.slice(kind.length + 1);
      boxes.set(key, {key, kind, name, layer: 0, inward: [], outward: []});
    }
    return boxes.get(key);
  };
  for (const edge of edges) {
    edge.start = box(edge.from);
    edge.end = box(edge.into);
  }
  for (const name of loose) box(`queue ${name}`);
  return boxes;
}

// Splits an edge into parts from each layer to the next one, through invisible boxes.
function divide(edge, layers) {
  const stops = [edge.start];
  const step = Math.sign(edge.end.layer - edge.start.layer);
  for (let layer = edge.start.layer + step; step && layer !== edge.end.layer; layer += step) {
    const stop = {layer, rank: layers[layer].length, inward: [], outward: []};
    layers[layer].push(stop);
    stops.push(stop);
  }
  stops.push(edge.end);
  edge.parts = stops.slice(1).map((end, place) =>
    ({start: stops[place], end, leaves: step || 1, arrives: step || -1}));
  for (const part of edge.parts) {
    part.start.outward.push(part);
    part.end.inward.push(part);
  }
}

function layersOf(boxes, edges) {
  // Bindings can form a cycle: stop after as many rounds as there are boxes.
  for (let turn = 0, isMoving = true; isMoving && turn < boxes.size; turn += 1) {
    isMoving = false;
    for (const {start, end} of edges) {
      const isSettled = LATE.includes(end.kind) || LATE.includes(start.kind)
        || end.layer > start.layer;
      if (isSettled || start.layer + 1 >= boxes.size) continue;
      end.layer = start.layer + 1;
      isMoving = true;
    }
  }
  const early = [...boxes.values()].filter((box) => !LATE.includes(box.kind));
  const last = Math.max(0, ...early.map((box) => box.layer + 1));
  const layers = Array.from({length: last + LATE.length}, () => []);
  for (const box of boxes.values()) {
    layers[LATE.includes(box.kind) ? last + LATE.indexOf(box.kind) : box.layer].push(box);
  }
  const filled = layers.filter((layer) => layer.length);
  for (const [number, layer] of filled.entries()) {
    layer.sort((one, other) => one.name.localeCompare(other.name));
    layer.forEach((box, rank) => Object.assign(box, {layer: number, rank}));
  }
  return filled;
}

function order(layers, isForward) {
  const wish = (box) => {
    const around = isForward ? box.inward.map((edge) => edge.start)
      : box.outward.map((edge) => edge.end);
    if (!around.length) return box.rank;
    return around.reduce((sum, one) => sum + one.rank, 0) / around.length;
  };
  for (const layer of isForward ? layers : [...layers].reverse()) {
    const wishes = new Map(layer.map((box) => [box, wish(box)]));
    layer.sort((one, other) => wishes.get(one) - wishes.get(other) || one.rank - other.rank);
    layer.forEach((box, rank) => { box.rank = rank; });
  }
}

function place(layers) {
  for (const [number, layer] of layers.entries()) {
    let y = MARGIN;
    for (const box of layer) {
      box.x = MARGIN + number * (BOX_WIDTH + LAYER_GAP);
      box.y = y;
      box.left = [...box.inward.filter((part) => part.arrives > 0),
        ...box.outward.filter((part) => part.leaves < 0)];
      box.right = [...box.outward.filter((part) => part.leaves > 0),
        ...box.inward.filter((part) => part.arrives < 0)];
      const least = box.kind === "queue" ? QUEUE_MIN : BOX_MIN;
      box.height = Math.max(least, ROW * Math.max(box.left.length, box.right.length));
      y += box.height + BOX_GAP;
    }
  }
}

// Lines are attached to a side of a box in the order of their other boxes.
function attach(box) {
  const spread = (parts, x) => {
    const other = ({start, end}) => (start === box ? end : start).y;
    parts.sort((one, two) => other(one) - other(two));
    parts.forEach((part, number) => {
      const y = box.y + box.height / parts.length * (number + 0.5);
      const begins = part.start === box && !(part.end === box && "x1" in part);
      if (begins) Object.assign(part, {x1: x, y1: y});
      else Object.assign(part, {x2: x, y2: y});
    });
  };
  spread(box.left, box.x);
  spread(box.right, box.x + BOX_WIDTH);
}
