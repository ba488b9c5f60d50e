"""Pausing and resuming reads from a connection's socket.

The socket is read unless one of these is true:

- An alarm is in force and the client publishes (broker/resources/alarms.py): the connection is
  blocked, and the client is told. After a timeout reading resumes and publishes
  are refused. Until then broker/resources/unread_sockets.py tells whether the client has ended.
- The store is congested and the client publishes (broker/resources/flow.py). This is brief, and the
  client is not notified.
- The input kept for sessions that wait exceeds its limit (in AMQP 0-9-1 that of held channels).
- The connection has read its share in this round; reading resumes after the round.
- Input of the connection waits for its turn (net/input_steps.py).
- The client publishes faster than the consumers of a queue are served (queues/publisher_hold.py).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Final, Protocol

from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.clock import Timer
from leveret.broker.runtime.turns import WORK_MAX
from leveret.broker.services.services import Services

BIG_READ_BYTES: Final = 128 * 1024
"""A chunk of this size is probably followed by more."""
MANY_MESSAGES: Final = 64
MANY_BYTES: Final = 64 * 1024
"""A publisher that sends a run of this size may outrun the consumers of its queues."""
ROUND_READ_BYTES_MAX: Final = 700 * 1024
"""Bytes to read from one socket per round. A smaller share would be fairer, but each pause costs
two system calls: with a pause after each chunk, a quarter of the time for large messages."""
SHARED_WORK_MAX: Final = 1000
"""Work of one round after which large reads pause while another publisher publishes little. With
1 KB messages one read is more. Pausing after each raises their cost by up to a sixth, and the p99
of a quiet connection beside such a publisher is a third of its value without the pause."""

logger = logging.getLogger("leveret.connection")


class Client(Protocol):
    """The connection whose socket is read."""

    name: str

    @property
    def is_consuming(self) -> bool:
        """Whether it has consumers, or deliveries that it has not settled."""

    def send_blocked(self, reason: str) -> None:
        """Tell the client that an alarm blocks it, if its protocol can say so."""

    def send_unblocked(self) -> None:
        """Tell the client that it is no longer blocked."""


class Reading:
    """The reading side of one connection.

    is_in_flow: reading is paused because the store is congested. unblocked: called when the client
    is no longer blocked.
    """

    __slots__ = (
        "_blocked_as", "_bytes_this_round", "_client", "_has_waiting_input", "_is_backlog_full",
        "_is_outrunning", "_is_paused_for_turn", "_is_refusing", "_refusal_timer",
        "_round_of_reads", "_services", "_transport", "_waits_for_disk", "is_in_flow", "unblocked",
    )  # fmt: skip

    def __init__(self, services: Services, client: Client) -> None:
        self._services = services
        self._client = client
        self._transport: asyncio.Transport | None = None
        self._blocked_as = ""
        self._is_refusing = False
        self._refusal_timer: Timer | None = None
        self.unblocked: Callable[[], object] = _no_waiter
        self.is_in_flow = self._waits_for_disk = False
        self._is_backlog_full = False
        self._is_paused_for_turn = self._has_waiting_input = False
        self._is_outrunning = False
        self._round_of_reads = 0
        self._bytes_this_round = 0

    def connect(self, transport: asyncio.Transport) -> None:
        """Read this socket."""
        self._transport = transport

    def disconnect(self) -> None:
        """The socket is closed."""
        if self._transport is not None:
            self._services.unread_sockets.forget(self._transport)
        self._transport = None
        self.unblocked = _no_waiter

    @property
    def is_held_back(self) -> bool:
        """Whether reading is paused for a reason other than the round's share."""
        return bool(self._blocked_as) or self.is_in_flow or self._is_backlog_full

    @property
    def publishing_state(self) -> str:
        """`blocked` by an alarm, `flow` while the store or a queue is behind, or `running`.

        RabbitMQ's management shows it as a connection's state.
        """
        if self._blocked_as or self._is_refusing:
            return "blocked"
        return "flow" if self.is_in_flow or self._is_outrunning else "running"

    def _resume(self) -> None:
        """Resume reading, unless another reason to pause remains."""
        if self._is_paused_for_turn or self._has_waiting_input or self.is_held_back:
            return
        if self._is_outrunning:
            return
        if self._transport is not None:
            self._transport.resume_reading()

    # Turns

    def pause_after_large_reads(self, size: int, others_publish_little: bool) -> None:
        """Count a large chunk; at the round's limit pause reading until the round ends.

        others_publish_little: from `Turns`. The event loop reads a socket up to 32 times in a row
        while each read fills the buffer.
        """
        rounds = self._services.turns.rounds
        if rounds != self._round_of_reads:
            self._round_of_reads, self._bytes_this_round = rounds, 0
        self._bytes_this_round += size
        is_shared = (
            others_publish_little and WORK_MAX - self._services.turns.work_left > SHARED_WORK_MAX
        )
        if self._bytes_this_round < ROUND_READ_BYTES_MAX and not is_shared:
            return
        if self._transport is not None and not self._is_paused_for_turn and not self.is_held_back:
            self._is_paused_for_turn = True
            self._transport.pause_reading()
            self._services.turns.after_round(self._resume_after_round)

    def _resume_after_round(self) -> None:
        self._is_paused_for_turn = False
        self._resume()

    def hold_back_for(self, queues: Iterable[QueueClient]) -> None:
        """Stop reading while the client's messages outrun the consumers of one of these queues."""
        if self._is_outrunning or self._transport is None:
            return
        for queue in queues:
            # The acks of a client that consumes have to be read.
            if queue.publisher_hold.is_wanted and not self._client.is_consuming:
                queue.publisher_hold.begin(self._stop_outrunning)
                self._is_outrunning = True
                self._transport.pause_reading()
                return

    def _stop_outrunning(self) -> None:
        self._is_outrunning = False
        self._resume()

    def pause_for_input(self) -> None:
        """Stop reading: input waits for its turn."""
        self._has_waiting_input = True
        if self._transport is not None:
            self._transport.pause_reading()

    def resume_after_input(self) -> None:
        """Resume reading: all input is handled."""
        self._has_waiting_input = False
        self._resume()

    # Sessions that wait

    def backlog_changed(self, is_full: bool) -> None:
        """The input kept for sessions that wait rose above its limit, or fell below it."""
        if is_full == self._is_backlog_full:
            return
        self._is_backlog_full = is_full
        if not is_full:
            self._resume()
        elif self._transport is not None:
            self._transport.pause_reading()

    # Publishers

    @property
    def is_blocked(self) -> bool:
        """Whether an alarm blocks the client."""
        return bool(self._blocked_as)

    def hold_back(self, is_persistent: bool) -> bool:
        """The client publishes during an alarm or congestion: pause reading until it ends.

        is_persistent: whether the message is persistent; others only have to wait for memory, not
        for the disk. Returns True if the alarm has lasted so long that publishes are refused
        instead.
        """
        if self._services.alarms.are_in_force:
            if self._is_refusing:
                return True
            self._block()
        flow = self._services.flow
        is_behind = flow.is_memory_short or (flow.is_congested and is_persistent)
        if is_behind and not self.is_in_flow and self._transport is not None:
            self.is_in_flow = True
            self._waits_for_disk = is_persistent
            self._transport.pause_reading()
        return False

    def congestion_changed(self) -> None:
        """The store became congested, or is no longer congested."""
        flow = self._services.flow
        is_behind = flow.is_memory_short or (flow.is_congested and self._waits_for_disk)
        if self.is_in_flow and not is_behind:
            self.is_in_flow = False
            self._resume()

    def _block(self) -> None:
        if self._blocked_as or self._transport is None:
            return
        self._blocked_as = self._services.alarms.reason
        self._transport.pause_reading()
        self._services.unread_sockets.watch(self._transport)
        self._client.send_blocked(self._blocked_as)
        logger.warning("%s is blocked: %s", self._client.name, self._blocked_as)
        timeout_ms = self._services.config.publisher_blocked_timeout_ms
        if timeout_ms is not None:
            clock = self._services.clock
            self._refusal_timer = clock.call_later_ms(timeout_ms, self._refuse_from_now_on)

    def _refuse_from_now_on(self) -> None:
        """The alarm has lasted too long: resume reading, and refuse publishes."""
        if self._blocked_as:
            self._is_refusing = True
            logger.warning("%s is still blocked: its publishes are refused", self._client.name)
            self._end_block()
            self.unblocked()

    def alarms_changed(self) -> None:
        """An alarm was raised or cleared."""
        if self.is_in_flow and self._services.alarms.are_in_force and not self._is_refusing:
            # It publishes, and is not read: so it would not learn of the alarm by publishing.
            self._block()
        was_blocked = self._blocked_as or self._is_refusing
        if not was_blocked or self._services.alarms.are_in_force or self._transport is None:
            return
        self.stop_blocking()
        self._client.send_unblocked()

    def stop_blocking(self) -> None:
        """Resume reading even if an alarm is in force, or a queue is outrun."""
        was_outrunning, self._is_outrunning = self._is_outrunning, False
        self._is_refusing = False
        if self._refusal_timer is not None:
            self._refusal_timer.cancel()
            self._refusal_timer = None
        if self._blocked_as and self._transport is not None:
            self._end_block()
            self.unblocked()
        elif was_outrunning:
            self._resume()

    def _end_block(self) -> None:
        self._blocked_as = ""
        if self._transport is not None:
            self._services.unread_sockets.forget(self._transport)
        self._resume()


def _no_waiter() -> None:
    """The connection has no input that waits."""
