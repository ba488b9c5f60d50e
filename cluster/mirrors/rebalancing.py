"""Which mirrored queues are to be led elsewhere, so that all nodes lead about as many. Pure.

A queue moves to a synchronised mirror only, so nothing is lost and nothing has to be copied. It
moves if its node then still leads as many as the other one, at least: so each move brings two nodes
closer together, and the same queues are never moved twice.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class LedQueue(NamedTuple):
    """A queue, by the node that leads it, and those that could: in the order of their members."""

    leader: str
    able: tuple[str, ...]


class Move(NamedTuple):
    """The queue at this place of the list is to be led by this node."""

    place: int
    node: str


def rebalancing(queues: Sequence[LedQueue]) -> list[Move]:
    """The moves, in the order in which they are to be made."""
    counts = Counter(queue.leader for queue in queues)
    left = dict(enumerate(queues))
    moves: list[Move] = []
    while True:
        made = [
            move for place, queue in tuple(left.items()) if (move := _move(place, queue, counts))
        ]
        if not made:
            return moves
        moves += made
        for move in made:
            del left[move.place]


def _move(place: int, queue: LedQueue, counts: Counter[str]) -> Move | None:
    """The move of a queue, which is counted, or None if it stays."""
    node = min(queue.able, key=lambda one: counts[one], default=queue.leader)
    if counts[node] + 1 >= counts[queue.leader]:
        return None
    counts[queue.leader] -= 1
    counts[node] += 1
    return Move(place, node)
