"""The bytes from a connection whose input is held while an operation of its client waits.

A frame whose operation waits for an answer, such as that of another node or of a backend, holds up
the frames after it, so that the client gets its answers in order. The operation is a coroutine that
awaits `Answer`s (broker/runtime/pending.py); it has no task, and a time limit.
"""

from functools import partial

from mypy_extensions import mypyc_attr

from leveret.broker.amqp.errors import Fault, internal_error
from leveret.broker.net.socket_input import SocketInput
from leveret.broker.runtime.pending import PendingOperation, Steps, begin
from leveret.broker.services.services import Services


@mypyc_attr(allow_interpreted_subclasses=True)
class HeldInput(SocketInput):
    """The bytes that one connection receives, and the operation that waits, if any.

    A protocol overrides `take`, `handle` and `operation_failed`, and handles no input while
    `is_operating`. It calls `end_operations` when its connection ends.
    """

    __slots__ = ("_has_ended", "_operation", "_services")

    def __init__(self, services: Services, cause: object) -> None:
        """cause: the connection, named as the cause of a turn that takes long."""
        super().__init__(services.turns, cause)
        self._services = services
        self._operation: PendingOperation | None = None
        self._has_ended = False

    @property
    def is_operating(self) -> bool:
        """Whether an operation waits for an answer."""
        return self._operation is not None

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

    def handle(self) -> None:
        """Handle the input that has come, up to a frame that has to wait."""
        raise NotImplementedError

    def operation_failed(self, error: Exception) -> None:
        """An operation that has waited has failed."""
        raise NotImplementedError


def _timed_out() -> Fault:
    return internal_error("the operation was not answered in time")
