"""Tells a client what the leader of its group does for it: effects of the machine, in their order.

Deliveries come with the entries of the log that have the messages.
"""

from collections.abc import Iterable, Mapping

from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.cluster.quorum.client.group_client import GroupClient
from leveret.cluster.quorum.machine.commands import messages_at
from leveret.cluster.quorum.machine.effects import (
    Applied,
    Deliver,
    Effect,
    ForClient,
    Result,
    SenderEnded,
    TimedOut,
    UnknownSender,
)
from leveret.cluster.quorum.machine.runs import Run


def tell(
    client: GroupClient, session: int, effects: Iterable[Effect], entries: Mapping[int, bytes]
) -> None:
    """Tell the client of a sender those effects that are for it.

    entries: those that deliveries refer to, by their indexes.
    """
    for effect in effects:
        if isinstance(effect, ForClient) and effect.sender != client.sender:
            # It is for an earlier client of this node, in a session with the same number.
            continue
        if isinstance(effect, Applied):
            client.applied(session, effect.through)
        elif isinstance(effect, Deliver):
            runs = [_with_entry(run, entries[run.index]) for run in effect.runs]
            client.deliver(session, effect.consumer, runs)
        elif isinstance(effect, Result):
            client.result(session, effect.number, effect)
        elif isinstance(effect, TimedOut):
            client.timed_out(session, effect.consumer)
        elif isinstance(effect, UnknownSender):
            client.sender_unknown(session)
        elif isinstance(effect, SenderEnded):
            client.sender_ended(session)


def _with_entry(run: Run, entry: bytes) -> DeliveredRun:
    return DeliveredRun(run, entry, messages_at(entry))
