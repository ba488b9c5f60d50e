"""The offsets of traced messages, which their client learns when they are in the log.

The leader tells the last message of a chunk. A chunk has the publishes of a client in their order,
and mostly nothing else. If clients share it, or if it lacks messages that were in the log before,
their number shows that, and the offsets are not known.
"""

from collections.abc import Iterable

from leveret.broker.events.stream_events import MessagesPlaced
from leveret.broker.events.taps import Taps
from leveret.broker.events.traced import TracedQueue
from leveret.cluster.replicated_queues.client.numbered_command import NumberedCommand
from leveret.cluster.streams.client.commands import PublishEntries
from leveret.cluster.streams.machine.effects import Applied


def report_places(
    tracer: Taps, stream: TracedQueue, applied: Applied, commands: Iterable[NumberedCommand]
) -> None:
    """Report the traced messages of commands that are in a chunk."""
    publishes = [one for one in commands if isinstance(one, PublishEntries)]
    if sum(one.message_count for one in publishes) != applied.messages:
        return
    offset = applied.next_offset - applied.messages
    for publish in publishes:
        for place, numbers in publish.traced:
            tracer.stream_changed(MessagesPlaced(stream, numbers, offset + place))
        offset += publish.message_count
