"""The bytes from a connection whose input is held while an operation of its client waits.

A frame whose operation waits for an answer, such as that of another node or of a backend, holds up
the frames after it, so that the client gets its answers in order. The operation is a coroutine that
awaits `Answer`s (broker/runtime/pending.py); it has no task, and a time limit. While input waits
for an operation, for the end of an alarm or for the next round, the socket is not read.
"""

from functools import partial
from typing import Protocol

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.errors import Fault, internal_error
from leveret.broker.net.reading import BIG_READ_BYTES, Reading
from leveret.broker.net.socket_input import SocketInput
from leveret.broker.runtime.pending import PendingOperation, Steps, begin
from leveret.broker.services.services import Services


class InputConnection(Protocol):
    """The connection whose input waits."""

    reading: Reading

    @property
    def services(self) -> Services:
        """The services of the node."""

    def handle_input(self) -> None:
        """Call `HeldInput.handle`."""


@mypyc_attr(allow_interpreted_subclasses=True)
class HeldInput(SocketInput):
    """The bytes that one connection receives, and the operation that waits, if any.

    A protocol overrides `take`, `handle` and `operation_failed`, and handles no input while
    `has_to_wait`. At the end of `handle` it calls `pause` if input is left, and `resume` if not. It
    calls `end_operations` when its connection ends.
    """

    __slots__ = (
        "_has_ended", "_input_connection", "_is_paused", "_operation", "_reading", "_services",
    )  # fmt: skip

    def __init__(self, connection: InputConnection) -> None:
        """connection: a weak reference, which is also the cause of a turn that takes long."""
        services = connection.services
        super().__init__(services.turns, connection)
        self._input_connection = connection
        self._services = services
        self._reading = connection.reading
        self._operation: PendingOperation | None = None
        self._is_paused = self._has_ended = False

    def run(self, steps: Steps) -> None:
        """Run the steps of an operation. Raises the errors of those that need not wait."""
        awaited = begin(steps)
        if awaited is None:
            return
        if self._has_ended:
            awaited.abandon()
            steps.close()
            return
        timeout_ms = self._services.config.channel_operation_timeout_ms
        self._operation = PendingOperation(
            steps, awaited, self._resume, self._services.clock, timeout_ms, _timed_out
        )

    def attempt(self, steps: Steps) -> None:
        """Run the steps of an operation, as `run`; errors are passed to `operation_failed`."""
        try:
            self.run(steps)
        except Exception as error:
            self.operation_failed(error)

    def _resume(self, operation: PendingOperation) -> None:
        self._turns.watch.run(partial(self._step, operation), self._cause)

    def _step(self, operation: PendingOperation) -> None:
        if not self._is_waiting(operation):
            return
        try:
            operation.step()
        except Exception as error:
            self._operation = None
            self.operation_failed(error)
            if not self._has_ended:
                self.handle()
            return
        if operation.is_over and self._is_waiting(operation):
            self._operation = None
            self.handle()

    def _is_waiting(self, operation: PendingOperation) -> bool:
        """Whether this is the operation that waits. A step may end the connection, and so it."""
        return self._operation is operation

    def end_operations(self) -> None:
        """The connection ends: end the operation that waits; none waits after this."""
        self._has_ended = True
        operation, self._operation = self._operation, None
        if operation is not None:
            operation.close()

    # Reading

    @property
    def is_held(self) -> bool:
        """Whether input waits for something other than its turn and the end of an alarm."""
        return self._operation is not None

    @property
    def has_to_wait(self) -> bool:
        """Whether no more input may be handled in this turn."""
        return self._turns.work_left <= 0 or self.is_held or self._reading.is_blocked

    def handle_read(self, size: int) -> None:
        """Handle bytes that were added, unless earlier ones wait. size: of the read."""
        if not self._is_paused:
            self.handle()
        if size >= BIG_READ_BYTES:
            others_publish_little = self._turns.others_publish_little(id(self))
            self._reading.pause_after_large_reads(size, others_publish_little)

    def pause(self) -> None:
        """Input is left: the socket is not read until it is handled."""
        if not self._is_paused:
            self._is_paused = True
            self._reading.pause_for_input()
        if self._turns.work_left <= 0 and not self.is_held and not self._reading.is_blocked:
            self.go_on()

    def resume(self) -> None:
        """All input that has come is handled: read the socket again."""
        if self._is_paused:
            self._is_paused = False
            self._reading.resume_after_input()

    def go_on(self) -> None:
        """Handle the input that is left in a later round."""
        # The connection may end before, and is not to be freed while this waits.
        self._turns.after_round(self._input_connection.handle_input)

    def handle(self) -> None:
        """Handle the input that has come, up to a frame that has to wait."""
        raise NotImplementedError

    def operation_failed(self, error: Exception) -> None:
        """An operation has failed, after it has waited or in `attempt`."""
        raise NotImplementedError


def _timed_out() -> Fault:
    return internal_error("the operation was not answered in time")
