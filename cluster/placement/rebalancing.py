"""Spreading the leaders of replicated queues over the nodes of a cluster. Pure.

`rebalancing` returns the queues that other nodes are to lead, so that all nodes lead about equal
numbers. A queue moves only to a synchronised member, so no message is lost or has to be copied. It
moves only if its node then still leads at least as many as the other one: so each move brings two
nodes closer together, and the same queues are never moved twice.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class RebalancedQueue(NamedTuple):
    """The node that leads a queue, and those that could, in the order of their members."""

    leader: str
    able: tuple[str, ...]


class Move(NamedTuple):
    """The queue at this index of the list is to be led by this node."""

    place: int
    node: str


def rebalancing(queues: Sequence[RebalancedQueue]) -> list[Move]:
    """The moves, in the order in which they are to be made."""
    counts = Counter(queue.leader for queue in queues)
    left = dict(enumerate(queues))
    moves: list[Move] = []
    while True:
        made = [
            move for index, queue in tuple(left.items()) if (move := _move(index, queue, counts))
        ]
        if not made:
            return moves
        moves += made
        for move in made:
            del left[move.place]


def _move(index: int, queue: RebalancedQueue, counts: Counter[str]) -> Move | None:
    """The move of a queue, which changes the counts; None if it stays."""
    node = min(queue.able, key=lambda one: counts[one], default=queue.leader)
    if counts[node] + 1 >= counts[queue.leader]:
        return None
    counts[queue.leader] -= 1
    counts[node] += 1
    return Move(index, node)
