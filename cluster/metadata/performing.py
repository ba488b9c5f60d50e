"""Carries out declarations on one node: rows, registry, events, and the consumers that end.

Long work is done in steps (ordered_steps.py). Declarations that another node has submitted emit no
events here (RD2 of replicated_declarations.py).
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import TypeVar

from leveret.broker.declarations.requester import THE_NODE, Requester
from leveret.broker.declarations.values import Declaration
from leveret.broker.events.events import Events
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.registry.declaration_writer import DeclarationWriter
from leveret.broker.runtime.long_work import LongWork, Step
from leveret.broker.runtime.turns import Turns
from leveret.cluster.metadata.member_records import change_members
from leveret.cluster.metadata.ordered_steps import Steps

Result = TypeVar("Result")
TELL_WORK = 20
"""The work of notifying one consumer, in the units of broker/runtime/turns.py."""


class Performing:
    """members_changed: called when the nodes of the cluster have changed."""

    def __init__(
        self,
        writer: DeclarationWriter,
        events: Events,
        turns: Turns,
        members_changed: Callable[[], object],
    ) -> None:
        self._members_changed = members_changed
        self._writer = writer
        self._events = events
        self._turns = turns

    def perform(
        self,
        declarations: Sequence[Declaration],
        requester: Requester,
        alongside: Callable[[], None] | None = None,
    ) -> Generator[Step, None, Sequence[Consumer]]:
        """Carry out declarations that this node has submitted (`DeclarationWriter.performing`).

        Returns the consumers of deleted queues, which have to be notified.
        """
        cancelled = yield from self._writer.performing(declarations, requester, alongside)
        if change_members(declarations):
            self._members_changed()
        return cancelled

    def perform_silently(
        self, declarations: Sequence[Declaration], alongside: Callable[[], None] | None = None
    ) -> Steps:
        """Carry out declarations of other nodes (RD2), and notify consumers of deleted queues."""
        self.tell((yield from self._silenced(self.perform(declarations, THE_NODE, alongside))))

    def _silenced(self, steps: Generator[Step, None, Result]) -> Generator[Step, None, Result]:
        while True:
            with self._events.silenced():
                try:
                    step = next(steps)
                except StopIteration as end:
                    result: Result = end.value
                    return result
            yield step

    def tell(self, cancelled: Sequence[Consumer]) -> None:
        """Notify consumers whose queue was deleted."""
        if cancelled:
            name = "telling consumers of a deleted queue"
            LongWork(self._turns, name, _telling(cancelled)).start()


def _telling(cancelled: Sequence[Consumer]) -> Iterator[int]:
    for consumer in cancelled:
        consumer.tell_cancelled()
        yield TELL_WORK
