"""Draws the message flow: users, exchanges, queues and consumers in columns. Pure.

The width of a line shows its number of messages. Dead letters lead back from a queue to an exchange
and are dashed. Only the busiest lines are drawn; the table has the others.
"""

import math
from collections.abc import Iterable, Sequence

from leveret.analytics.report.aggregates import Edge
from leveret.analytics.report.charts import WIDTH, escaped, framed

EDGES_MAX = 60
COLUMNS = ("user", "exchange", "queue", "consumer")
BOX_WIDTH, BOX_HEIGHT, BOX_GAP = 150, 26, 12
MARGIN, HEAD = 8, 30
LABEL_MAX = 21
STROKE_MAX = 12.0

Node = tuple[str, str, str]
"""Virtual host, kind and name."""
Places = dict[Node, tuple[float, float]]


def topology_chart(edges: Sequence[Edge]) -> str:
    """Draw the edges with the most messages."""
    drawn = sorted(edges, key=lambda edge: -edge.messages)[:EDGES_MAX]
    if not drawn:
        return ""
    places = _places(drawn)
    height = int(max(y for _, y in places.values()) + BOX_HEIGHT + MARGIN)
    most = max(edge.messages for edge in drawn)
    several = len({edge.vhost for edge in drawn}) > 1
    heads = [
        f'<text class="axis" x="{_column_x(column)}" y="18">{kind}s</text>'
        for column, kind in enumerate(COLUMNS)
    ]
    lines = [_line(edge, places, most) for edge in drawn]
    boxes = [_box(node, place, several) for node, place in places.items()]
    description = "; ".join(_words(edge) for edge in drawn[:10])
    content = "".join([*heads, *lines, *boxes])
    return f'<div class="chart">{framed("Topology", description, content, height)}</div>'


def _ends(edge: Edge) -> tuple[Node, Node]:
    return (edge.vhost, edge.source_kind, edge.source), (edge.vhost, edge.target_kind, edge.target)


def _places(edges: Iterable[Edge]) -> Places:
    """Place each column in the order of its neighbours to the left, which avoids crossing lines."""
    weights: dict[Node, int] = {}
    left: dict[Node, list[Node]] = {}
    for edge in edges:
        source, target = _ends(edge)
        for node in (source, target):
            weights[node] = weights.get(node, 0) + edge.messages
        if not edge.dead_letters:
            left.setdefault(target, []).append(source)
    places: Places = {}
    for column, kind in enumerate(COLUMNS):
        nodes = [node for node in weights if node[1] == kind]
        heights = {node: _mean_y(left.get(node, []), places) for node in nodes}
        nodes.sort(key=lambda node: (heights[node], -weights[node], node))
        for row, node in enumerate(nodes):
            places[node] = (_column_x(column), HEAD + row * (BOX_HEIGHT + BOX_GAP))
    return places


def _mean_y(neighbours: Sequence[Node], places: Places) -> float:
    known = [places[node][1] for node in neighbours if node in places]
    return sum(known) / len(known) if known else math.inf


def _column_x(column: int) -> float:
    return MARGIN + column * (WIDTH - 2 * MARGIN - BOX_WIDTH) / (len(COLUMNS) - 1)


def _line(edge: Edge, places: Places, most: int) -> str:
    source, target = _ends(edge)
    if source not in places or target not in places:
        return ""
    (x1, y1), (x2, y2) = places[source], places[target]
    y1, y2 = y1 + BOX_HEIGHT / 2, y2 + BOX_HEIGHT / 2
    if x1 < x2:
        x1 += BOX_WIDTH
    else:
        x2 += BOX_WIDTH
    middle = (x1 + x2) / 2
    stroke = max(1.0, STROKE_MAX * edge.messages / most)
    kind = "way dead" if edge.dead_letters else "way"
    return (
        f'<path class="{kind}" d="M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f}'
        f' {x2:.1f} {y2:.1f}" stroke-width="{stroke:.1f}"><title>{escaped(_words(edge))}</title>'
        "</path>"
    )


def _box(node: Node, place: tuple[float, float], with_vhost: bool) -> str:
    vhost, kind, name = node
    name = name or ("(default exchange)" if kind == "exchange" else "(no name)")
    whole = f"{name} in {vhost}" if with_vhost else name
    label = whole if len(whole) <= LABEL_MAX else f"{whole[: LABEL_MAX - 1]}…"
    x, y = place
    return (
        f'<g><title>{escaped(kind)} {escaped(whole)}</title><rect class="box {kind}" x="{x:.1f}"'
        f' y="{y:.1f}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="4"/><text class="name"'
        f' x="{x + 8:.1f}" y="{y + 17:.1f}">{escaped(label)}</text></g>'
    )


def _words(edge: Edge) -> str:
    dead = f" as dead letters ({edge.dead_letters})" if edge.dead_letters else ""
    source = edge.source or "(default)"
    target = edge.target or "(default)"
    return (
        f"{edge.messages:,} from {edge.source_kind} {source} to {edge.target_kind} {target}{dead}"
    )
