"""Passes effects of the leader's machine to the client that they are for, in their order.

Deliveries come together with the log entries that contain the messages.
"""

from collections.abc import Iterable, Mapping

from leveret.cluster.quorum.client.consuming_client import ConsumingClient
from leveret.cluster.quorum.client.delivered_run import DeliveredRun
from leveret.cluster.quorum.machine.commands import messages_at
from leveret.cluster.quorum.machine.effects import (
    ActiveChanged,
    Applied,
    Deliver,
    Effect,
    ForClient,
    Result,
    SenderEnded,
    TimedOut,
    UnknownSender,
    Withheld,
)
from leveret.cluster.quorum.machine.runs import Run


def tell(
    client: ConsumingClient, session: int, effects: Iterable[Effect], entries: Mapping[int, bytes]
) -> None:
    """Pass to a client the effects that are for its sender.

    entries: those that deliveries refer to, by index.
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
        elif isinstance(effect, Withheld):
            without_entries = [DeliveredRun(run, b"", 0) for run in effect.runs]
            client.withheld(session, effect.consumer, without_entries)
        elif isinstance(effect, Result):
            client.result(session, effect.number, effect)
        elif isinstance(effect, TimedOut):
            client.timed_out(session, effect.consumer, effect.positions)
        elif isinstance(effect, ActiveChanged):
            client.active_changed(session, effect.consumer, effect.is_active)
        elif isinstance(effect, UnknownSender):
            client.sender_unknown(session)
        elif isinstance(effect, SenderEnded):
            client.sender_ended(session)


def _with_entry(run: Run, entry: bytes) -> DeliveredRun:
    return DeliveredRun(run, entry, messages_at(entry))
