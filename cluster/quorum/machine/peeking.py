"""Finds the message at a place in the queue (`rabbitmq-queues peek`)."""

from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.ready_messages import HIGH
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.quorum.machine.snapshots import restore, snapshot


def peek(machine: QuorumMachine, place: int) -> Run | None:
    """The message at a place, counted from 1 in the order of delivery; None if there is none.

    With two priorities, and in a successor, it takes as long as a snapshot: the next message is at
    the head of any of the priorities, so a copy of the queue has to be emptied up to the place.
    """
    ready = machine.messages.ready
    if not 0 < place <= ready.count:
        return None
    levels = [level.queue for level in ready.levels if level.queue.count]
    is_mixed = len(levels) > 1 and (ready.priorities == HIGH + 1 or ready.is_successor)
    if is_mixed and place > ready.returned.count:
        return _taken(machine, place)
    for queue in (ready.returned, *levels):
        if place <= queue.count:
            return queue.at(place)
        place -= queue.count
    return None


def _taken(machine: QuorumMachine, place: int) -> Run:
    ready = restore(snapshot(machine)).messages.ready
    run = ready.take(place)
    while run.count < place:
        place -= run.count
        run = ready.take(place)
    return run.part(place - 1, 1)
