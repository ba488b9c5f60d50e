"""Held channels: the pending operation of each, and the frames that arrive while it is held.

A method that waits for an answer (broker/runtime/pending.py) holds its own channel and no other.
Frames that the client sends on a held channel are kept in order and handled when the operation
ends. Number 0 is the connection itself: a pending login or connection.update-secret. A method that
waits only for a sync does not hold its channel (unsynced_replies.py).

The kept frames are bounded: above `KEPT_BYTES_MAX` the socket is not read.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from leveret.broker.amqp.errors import Fault, internal_error
from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.protocols.amqp091.connection.unsynced_replies import UnsyncedReplies
from leveret.broker.runtime.pending import Answer, PendingOperation, Steps, begin
from leveret.broker.services.services import Services
from leveret.broker.sessions.operation_faults import timed_out

KEPT_BYTES_MAX = 1024 * 1024
"""Limit for all held channels of one connection. A client that pipelines methods stays far below
it, and ten thousand connections that publish to held channels need at most 10 GB."""
WRITTEN_WORK: Final = 250
"""The work of writing a declaration to disk, in addition to that of any method: 100 microseconds
(broker/runtime/turns.py)."""
FRAME_COST_BYTES: Final = 256
"""Memory of a kept frame in addition to its payload, so that many small frames count too."""


class WaitingMethod(NamedTuple):
    """A pending operation. method_index: the method that its faults name."""

    operation: PendingOperation
    method_index: int


class KeptFrame(NamedTuple):
    """A frame or a run of publishes: the function that handles it, and its arguments."""

    cost_bytes: int
    handle: Callable[..., object]
    arguments: tuple[Any, ...]


class HeldChannels:
    """The held channels of one connection, by number.

    waiting: pending operations; an ended one stays until its channel's kept frames are handled.
    """

    __slots__ = (
        "_clock", "_frames", "_kept_bytes", "_resume", "_timeout_ms", "_turns", "_unsynced",
        "waiting",
    )  # fmt: skip

    def __init__(
        self, services: Services, resume: Callable[[int], object], unsynced: UnsyncedReplies
    ) -> None:
        """resume: called with the number of a channel whose answer was given."""
        self._unsynced = unsynced
        self._clock = services.clock
        self._turns = services.turns
        self._timeout_ms = services.config.channel_operation_timeout_ms
        self._resume = resume
        self.waiting: dict[int, WaitingMethod] = {}
        self._frames: dict[int, deque[KeptFrame]] = {}
        self._kept_bytes = 0

    @property
    def is_full(self) -> bool:
        """Whether the kept frames, or the output gathered behind replies, exceed their limit."""
        return self._kept_bytes > KEPT_BYTES_MAX or self._unsynced.is_full

    def hold_for_replies(self, channel: Channel | None, fault: Fault, method_index: int) -> bool:
        """Hold a channel whose method failed until its replies are sent; then the fault is raised.

        Returns False if none waits, or if the channel is held already: the fault is not a method's.
        """
        if channel is None or not self._unsynced.is_waiting(channel):
            return False
        if self.is_held(channel.number):
            return False
        sent = self._unsynced.sent(channel)
        steps = _fail_after(sent, fault)
        begin(steps)
        self.hold(channel, steps, sent, method_index, lambda: "channel.close")
        return True

    def hold(
        self,
        channel: Channel | None,
        steps: Steps,
        awaited: Answer[Any],
        method_index: int,
        describe: Callable[[], str],
    ) -> None:
        """Hold a channel, or the connection itself (None), until a method's coroutine ends.

        A channel is not held if the method waits only for a sync. describe: returns the method and
        its object, for the text of the timeout fault.
        """
        number = 0 if channel is None else channel.number
        operation = PendingOperation(
            steps, awaited, lambda _: self._resume(number), self._clock, self._timeout_ms,
            lambda: self._timed_out(channel, describe),
        )  # fmt: skip
        if channel is not None:
            if operation.awaits_sync:
                self._turns.work_left -= WRITTEN_WORK
            if self._needs_no_hold(operation):
                self._unsynced.wait(channel, operation, method_index)
                return
            channel.wait_for(operation)
        self.waiting[number] = WaitingMethod(operation, method_index)

    def _timed_out(self, channel: Channel | None, describe: Callable[[], str]) -> Exception:
        fault = timed_out(describe(), self._timeout_ms)
        return internal_error(fault.explanation) if channel is None else fault

    def _needs_no_hold(self, operation: PendingOperation) -> bool:
        return operation.awaits_sync and self._unsynced.has_room

    def release(self, number: int, channel: Channel | None) -> bool:
        """Release a channel if its operation has ended, or waits only for a sync.

        Returns False if it is still held.
        """
        operation, method_index = self.waiting[number]
        if not operation.is_over:
            if channel is None or not self._needs_no_hold(operation):
                return False
            self._unsynced.wait(channel, operation, method_index)
        del self.waiting[number]
        if channel is not None:
            channel.resume()
        return True

    def is_held(self, number: int) -> bool:
        """Whether frames of this channel must be kept."""
        waiting = self.waiting.get(number)
        return waiting is not None and not waiting.operation.is_over

    def keep(self, number: int, size: int, handle: Callable[..., object], *arguments: Any) -> None:
        """Keep a frame. size: its approximate size in bytes."""
        self._frames_of(number, size).append(KeptFrame(size + FRAME_COST_BYTES, handle, arguments))

    def keep_first(
        self, number: int, size: int, handle: Callable[..., object], *arguments: Any
    ) -> None:
        """Keep the rest of a frame that is being handled: it precedes its channel's others."""
        frame = KeptFrame(size + FRAME_COST_BYTES, handle, arguments)
        self._frames_of(number, size).appendleft(frame)

    def _frames_of(self, number: int, size: int) -> deque[KeptFrame]:
        """Return the kept frames of a channel, and count one more of this size."""
        self._kept_bytes += size + FRAME_COST_BYTES
        return self._frames.setdefault(number, deque())

    def handle_kept(self, number: int) -> None:
        """Handle a channel's kept frames until it is held again.

        Raises the fault that a frame raises; the next call continues after that frame.
        """
        while number not in self.waiting and (frames := self._frames.get(number)):
            frame = frames.popleft()
            self._kept_bytes -= frame.cost_bytes
            frame.handle(*frame.arguments)
        if not self._frames.get(number):
            self._frames.pop(number, None)

    def disconnect(self) -> None:
        """The socket is closed: no channel is resumed."""
        self._resume = _resume_nothing
        self._unsynced.disconnect()

    def close(self) -> None:
        """The connection ends: close all operations and discard the kept frames."""
        waiting, self.waiting = self.waiting, {}
        for one in waiting.values():
            one.operation.close()
        self._frames = {}
        self._kept_bytes = 0
        self._unsynced.close()


async def _fail_after(sent: Answer[None], fault: Fault) -> None:
    await sent
    raise fault


def _resume_nothing(number: int) -> None:
    """The connection has ended."""
