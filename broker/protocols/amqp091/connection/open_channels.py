"""The channels of a connection: opening, closing, and releasing them when the connection ends."""

import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final

from pamqp import base, commands

from leveret.broker.amqp.errors import (
    channel_error,
    not_allowed,
    unexpected_frame,
    without_method,
)
from leveret.broker.amqp.frames import METHOD
from leveret.broker.events.channel_events import channel_created
from leveret.broker.net import connection_limits as limits
from leveret.broker.protocols.amqp091.channel.channel import Channel, ChannelConnection
from leveret.broker.protocols.ending import HANDSHAKE, RUNNING
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer
from leveret.broker.sessions.session import CANCEL_WORK

CHANNELS_AT_ONCE: Final = 20
"""At least this many channels are released in one turn when their connection ends; more if there
is work left (broker/runtime/turns.py)."""
RELEASE_WORK, STOP_WORK = 250, 4
"""The work of releasing a channel, besides that of its consumers and unsettled messages; and of
stopping it before."""


class OpenChannels:
    """The channels of one connection, by number; failed ones stay until channel.close-ok.

    channel_max: the negotiated limit; 0 for none.
    """

    __slots__ = ("_connection", "_registry", "by_number", "channel_max")

    def __init__(self, connection: ChannelConnection, registry: Iterable[limits.Counted]) -> None:
        """registry: all connections of the node, for the limits on channels."""
        self._connection = weakref.ref(connection)
        self._registry = registry
        self.by_number: dict[int, Channel] = {}
        self.channel_max = 0

    def _holder(self) -> ChannelConnection:
        connection = self._connection()
        assert connection is not None, "it received a frame of a channel"
        return connection

    def open(self, number: int) -> None:
        """Open a channel.

        Raises 504 if it is open, or has failed and the client has not sent channel.close-ok; 530 if
        a limit is reached.
        """
        connection = self._holder()
        channels = self.by_number
        if number in channels:
            raise channel_error("second 'channel.open' seen")
        limit = self.channel_max
        if limit and len(channels) >= limit:
            raise without_method(
                not_allowed(
                    f"number of channels opened ({len(channels)}) has reached the negotiated "
                    f"channel_max ({limit})"
                )
            )
        limits.check_channels(connection.services, connection.user, self._registry)
        channel = channels[number] = Channel(connection, number)
        channel.send(commands.Channel.OpenOk)
        channel_created(channel)

    def require(self, number: int, state: str) -> None:
        """Raise the connection error for a method on a channel that is not open.

        state: the connection's (protocols/ending.py).
        """
        if state is HANDSHAKE:
            raise unexpected_frame(f"type {METHOD} on channel {number} before connection.open")
        if number == 0:
            raise channel_error("unexpected method in connection state running")
        if state is RUNNING and number not in self.by_number:
            raise channel_error("expected 'channel.open'")

    async def close(self, channel: Channel, sent: Answer[None]) -> None:
        """Close a channel at the client's request. sent: given when its replies are sent."""
        await sent
        if channel.has_confirms_due:
            channel.send_confirms()
        channel.release()
        channel.send(commands.Channel.CloseOk)
        channel.end()
        del self.by_number[channel.number]

    def handle_on_closing(self, channel: Channel, method: base.Frame) -> None:
        """Handle a method after a channel error: only close and close-ok have an effect."""
        if isinstance(method, commands.Channel.CloseOk):
            del self.by_number[channel.number]
        elif isinstance(method, commands.Channel.Close):
            self._holder().send(channel.number, commands.Channel.CloseOk)

    def resume_consumers(self) -> None:
        """The output is no longer congested: queues may deliver to the consumers again."""
        for channel in tuple(self.by_number.values()):
            channel.credit_consumers()

    def release(self) -> None:
        """The connection ends: release everything that the channels hold.

        They stop at once; the contents of very many of them are released in turns.
        """
        channels = deque([one for one in self.by_number.values() if not one.is_closing])
        self.by_number.clear()
        for channel in channels:
            if channel.has_confirms_due:
                channel.send_confirms()
            channel.end()
            channel.stop()
        releasing = _releasing(channels)
        if len(channels) > CHANNELS_AT_ONCE:
            connection = self._holder()
            name = f"releasing the channels of {connection!r}"
            turns = connection.vhost.turns
            turns.work_left -= STOP_WORK * len(channels)
            LongWork(turns, name, releasing).start()
        else:
            for _ in releasing:
                pass


def _releasing(channels: deque[Channel]) -> Iterator[int]:
    """The steps of releasing the contents of channels (broker/runtime/long_work.py)."""
    while channels:
        channel = channels.popleft()
        work = RELEASE_WORK + CANCEL_WORK * len(channel.consumers)
        channel.release()
        yield work
