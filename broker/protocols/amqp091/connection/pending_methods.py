"""The methods of one connection that wait for an answer, and the frames that wait for them.

A method runs until it has to wait; then its channel, and no other one, is held, and the frames that
come for it are kept (held.py). A method that waits only for the disk holds nothing
(unsynced_replies.py). When the answer is given, the method continues as a step of the
connection's input, like a frame, so that a fault closes its channel in the same way.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from leveret.broker.amqp.errors import Fault
from leveret.broker.net.reading import Reading
from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.protocols.amqp091.connection.closing import Closing
from leveret.broker.protocols.amqp091.connection.held import HeldChannels
from leveret.broker.protocols.amqp091.connection.output import Output
from leveret.broker.protocols.amqp091.connection.unsynced_replies import UnsyncedReplies
from leveret.broker.protocols.ending import HANDSHAKE
from leveret.broker.runtime.pending import Answer, Steps, begin
from leveret.broker.runtime.turns import NextTurn
from leveret.broker.services.services import Services


class PendingMethods:
    """The methods of one connection that wait. handle: handles a step of the connection's input.
    at_work: called with the channel and the method index before a method continues, so that faults
    name them.
    """

    __slots__ = (
        "_at_work", "_channels", "_closing", "_handle", "_held", "_reading", "_unsynced",
    )  # fmt: skip

    def __init__(
        self,
        services: Services,
        closing: Closing,
        output: Output,
        reading: Reading,
        channels: dict[int, Channel],
        handle: Callable[[Callable[[], object]], None],
        at_work: Callable[[Channel | None, int], None],
    ) -> None:
        self._closing = closing
        self._reading = reading
        self._channels = channels
        self._handle = handle
        self._at_work = at_work
        self._unsynced = UnsyncedReplies(output, self._backlog_changed)
        self._held = HeldChannels(services, self._resume, self._unsynced)

    def run(
        self,
        channel: Channel | None,
        steps: Steps,
        describe: Callable[[], str],
        method_index: int,
    ) -> None:
        """Run a method; if it waits, hold its channel (None: the connection itself).

        describe: returns the method and its object, for the text of the timeout fault.
        """
        awaited = begin(steps)
        if isinstance(awaited, NextTurn):
            # All input of the connection waits, so that later input comes after the method.
            go_on = partial(self._run_on, channel, steps, describe, method_index, awaited)
            raise awaited.turn_over(go_on)
        if awaited is not None:
            self._held.hold(channel, steps, awaited, method_index, describe)

    def _run_on(
        self,
        channel: Channel | None,
        steps: Steps,
        describe: Callable[[], str],
        method_index: int,
        awaited: NextTurn,
    ) -> None:
        """Continue a method that has given up the rest of its turn."""
        self._at_work(channel, method_index)
        awaited.give(None)
        self.run(channel, steps, describe, method_index)

    def hold_for_replies(self, channel: Channel | None, fault: Fault, method_index: int) -> bool:
        """Hold a channel whose method failed until its replies are sent."""
        return self._held.hold_for_replies(channel, fault, method_index)

    def replies_sent(self, channel: Channel) -> Answer[None]:
        """An answer that is given when the channel's replies are sent."""
        return self._unsynced.sent(channel)

    @property
    def is_any(self) -> bool:
        """Whether a method waits whose channel is held."""
        return bool(self._held.waiting)

    def keep(self, number: int, size: int, handle: Callable[..., object], *arguments: Any) -> bool:
        """Keep a frame if its channel is held, or during the handshake if the login is pending."""
        held_number = 0 if self._closing.state is HANDSHAKE else number
        if not self._held.is_held(held_number):
            return False
        self._held.keep(held_number, size, handle, *arguments)
        self._backlog_changed()
        return True

    def keep_rest(
        self, number: int, size: int, handle: Callable[..., object], *arguments: Any
    ) -> None:
        """Keep the rest of a frame if its channel was held while the frame was handled.

        It precedes the kept frames; if the channel closes, it is dropped.
        """
        if self._held.is_held(number):
            self._held.keep_first(number, size, handle, *arguments)
            self._backlog_changed()

    def _backlog_changed(self) -> None:
        """The amount of waiting input and output has changed."""
        self._reading.backlog_changed(self._held.is_full)

    def _resume(self, number: int) -> None:
        """Resume a held channel after its answer; if another step is running, after that one."""
        self._handle(partial(self.continue_channel, number))

    def continue_channel(self, number: int) -> None:
        """Send a channel's replies that are due, and continue its operation; if it ends, handle the
        channel's kept frames.
        """
        channel = self._channels.get(number)
        if channel is not None and channel.unsynced is not None:
            self._send_replies(channel)
        waiting = self._held.waiting.get(number)
        if waiting is not None:
            self._at_work(channel, waiting.method_index)
            waiting.operation.step()
            if not self._held.release(number, channel):
                return
        try:
            self._held.handle_kept(number)
        finally:
            self._backlog_changed()

    def _send_replies(self, channel: Channel) -> None:
        """Send the replies of a channel that no longer have to wait."""
        while (method_index := self._unsynced.next_due(channel)) is not None:
            self._at_work(channel, method_index)
            self._unsynced.send_next(channel)

    def close(self) -> None:
        """The connection ends: close all pending operations."""
        self._held.close()
        self._reading.backlog_changed(False)

    def disconnect(self) -> None:
        """The socket is closed: no method is resumed, and the connection is let go."""
        self._held.disconnect()
        self._handle = _handle_nothing
        self._at_work = _nothing_at_work


def _handle_nothing(step: Callable[[], object]) -> None:
    """The connection has ended."""


def _nothing_at_work(channel: Channel | None, method_index: int) -> None:
    """The connection has ended."""
