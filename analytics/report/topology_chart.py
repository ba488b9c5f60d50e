"""Draws the message flow: users, exchanges, queues and consumers in columns. Pure.

The width of a line shows its number of messages. Dead letters lead back from a queue to an exchange
and are dashed. Only the busiest lines are drawn; the table has the others.
"""

import math
from collections.abc import Iterable, Sequence

from leveret.analytics.formatting import shown
from leveret.analytics.report.aggregates import Edge
from leveret.analytics.report.charts import WIDTH, escaped, framed

EDGES_MAX = 60
COLUMNS = ("user", "exchange", "queue", "consumer")
BOX_WIDTH, LINE_HEIGHT, BOX_GAP = 172, 15, 12
MARGIN, HEAD = 8, 30
LABEL_MAX = 25
"""Characters of a line; longer names have several lines."""
STROKE_MAX = 12.0

Node = tuple[str, str, str]
"""Virtual host, kind and name."""
Labels = dict[Node, list[str]]
"""The lines of text of each box."""
Places = dict[Node, tuple[float, float]]
"""The left upper corner of each box."""


def topology_chart(edges: Sequence[Edge]) -> str:
    """Draw the edges with the most messages."""
    drawn = sorted(edges, key=lambda edge: -edge.messages)[:EDGES_MAX]
    if not drawn:
        return ""
    several = len({edge.vhost for edge in drawn}) > 1
    nodes = {node for edge in drawn for node in _ends(edge)}
    labels = {node: _label(node, several) for node in nodes}
    places = _places(drawn, labels)
    height = int(max(y + _height(labels[node]) for node, (_, y) in places.items()) + MARGIN)
    most = max(edge.messages for edge in drawn)
    heads = [
        f'<text class="axis" x="{_column_x(column)}" y="18">{kind}s</text>'
        for column, kind in enumerate(COLUMNS)
    ]
    lines = [_line(edge, places, labels, most) for edge in drawn]
    boxes = [_box(node, place, labels[node]) for node, place in places.items()]
    description = "; ".join(_words(edge) for edge in drawn[:10])
    content = "".join([*heads, *lines, *boxes])
    return f'<div class="chart">{framed("Topology", description, content, height)}</div>'


def _ends(edge: Edge) -> tuple[Node, Node]:
    return (edge.vhost, edge.source_kind, edge.source), (edge.vhost, edge.target_kind, edge.target)


def _places(edges: Iterable[Edge], labels: Labels) -> Places:
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
        y = float(HEAD)
        for node in nodes:
            places[node] = (_column_x(column), y)
            y += _height(labels[node]) + BOX_GAP
    return places


def _mean_y(neighbours: Sequence[Node], places: Places) -> float:
    known = [places[node][1] for node in neighbours if node in places]
    return sum(known) / len(known) if known else math.inf


def _column_x(column: int) -> float:
    return MARGIN + column * (WIDTH - 2 * MARGIN - BOX_WIDTH) / (len(COLUMNS) - 1)


def _line(edge: Edge, places: Places, labels: Labels, most: int) -> str:
    source, target = _ends(edge)
    if source not in places or target not in places:
        return ""
    (x1, y1), (x2, y2) = places[source], places[target]
    y1, y2 = y1 + _height(labels[source]) / 2, y2 + _height(labels[target]) / 2
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


def _height(lines: Sequence[str]) -> float:
    return LINE_HEIGHT * len(lines) + 11


def _label(node: Node, with_vhost: bool) -> list[str]:
    """Return a whole name in lines."""
    vhost, kind, name = node
    whole = shown(name or ("default exchange" if kind == "exchange" else "(no name)"))
    whole = f"{whole} in {shown(vhost)}" if with_vhost else whole
    return [whole[at : at + LABEL_MAX] for at in range(0, len(whole), LABEL_MAX)]


def _box(node: Node, place: tuple[float, float], lines: Sequence[str]) -> str:
    _, kind, _ = node
    x, y = place
    texts = "".join(
        f'<text class="name" x="{x + 8:.1f}" y="{y + 17 + LINE_HEIGHT * number:.1f}">'
        f"{escaped(line)}</text>"
        for number, line in enumerate(lines)
    )
    return (
        f'<g><title>{escaped(kind)} {escaped("".join(lines))}</title><rect class="box {kind}"'
        f' x="{x:.1f}" y="{y:.1f}" width="{BOX_WIDTH}" height="{_height(lines):.0f}" rx="4"/>'
        f"{texts}</g>"
    )


def _words(edge: Edge) -> str:
    dead = f" as dead letters ({edge.dead_letters})" if edge.dead_letters else ""
    source = party_shown(edge.source_kind, edge.source)
    target = party_shown(edge.target_kind, edge.target)
    return f"{edge.messages:,} from {source} to {target}{dead}"


def party_shown(kind: str, name: str) -> str:
    """Return the kind and name of one end of an edge."""
    if not name:
        return "the default exchange" if kind == "exchange" else f"{kind} (no name)"
    return f"{kind} {name}"
