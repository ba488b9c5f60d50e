"""Which message is at a place of the queue (`rabbitmq-queues peek`)."""

from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.machine.runs import Run
from leveret.cluster.quorum.machine.snapshots import restore, snapshot


def peek(machine: QuorumMachine, place: int) -> Run | None:
    """The message at a place, counted from 1 in the order of delivery; None if there is none.

    Takes as long as a snapshot, since it takes the messages before it from a copy of the queue.
    """
    ready = restore(snapshot(machine)).messages.ready
    if not 0 < place <= ready.count:
        return None
    run = ready.take(place)
    while run.count < place:
        place -= run.count
        run = ready.take(place)
    return run.part(place - 1, 1)
