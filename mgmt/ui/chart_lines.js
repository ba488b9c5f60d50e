// The lines of a chart as pieces. Where several lines have the same pixels, or nearly, each of them
// is drawn with dashes that leave room for those of the others: all colours are seen side by side.

const DASH = 7;
// Pixels: lines that are nearer than this cover each other.
const NEAR = 2;

// lines: lists of {time, value}, the oldest first. x, y: from a time and a value to pixels. Returns
// for each line its pieces, {d, dashes, offset}: a path, and SVG's dash array, undefined for solid.
export function piecesOf(lines, x, y) {
  const places = lines.map((points) =>
    new Map(points.map(({time, value}) => [time, y(value)])));
  return lines.map((points, number) =>
    runsOf(points, number, places).map((run) => pieceOf(run, x, y)));
}

// Divides a line where the set of lines that coincide with it changes.
function runsOf(points, number, places) {
  const runs = [];
  for (const [index, point] of points.slice(1).entries()) {
    const before = points[index];
    const together = coinciding(number, places, before.time, point.time);
    const key = together.join();
    if (runs.at(-1)?.key === key) runs.at(-1).points.push(point);
    else runs.push({key, points: [before, point], rank: together.indexOf(number),
      count: together.length});
  }
  return runs;
}

function coinciding(number, places, start, end) {
  const own = places[number];
  const isNear = (other, time) => Math.abs(other.get(time) - own.get(time)) < NEAR;
  return places.flatMap((other, place) =>
    (isNear(other, start) && isNear(other, end) ? [place] : []));
}

function pieceOf({points, rank, count}, x, y) {
  const d = points.map(({time, value}, number) =>
    `${number ? "L" : "M"}${x(time).toFixed(1)} ${y(value).toFixed(1)}`).join("");
  if (count === 1) return {d};
  return {d, dashes: `${DASH} ${DASH * (count - 1)}`, offset: (count - rank) * DASH};
}
