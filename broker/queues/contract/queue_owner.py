"""A virtual host, as the queues of this process see it."""

from typing import Protocol

from leveret.broker.declarations.requester import Requester
from leveret.broker.events.taps import Taps
from leveret.broker.queues.contract.priority_levels import PriorityLevels
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.retained_dead_letters import DeadLetterSource, DeadLetterWorker
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.shared_features import SharedFeatures
from leveret.broker.runtime.turns import Turns
from leveret.storage.contract.backing_queue import BackingQueue
from leveret.storage.messages.message import Message


class QueueOwner(Protocol):
    """The virtual host, as its queues know it. tracer: None while the vhost is not traced.

    expires_on_time: what queues do that do not say whether messages expire on time.
    """

    name: str
    turns: Turns
    clock: Clock
    features: SharedFeatures
    tracer: Taps | None
    expires_on_time: bool

    def make_backing(self, queue: QueueClient, levels: PriorityLevels | None) -> BackingQueue:
        """Make the backing queue of a queue, with the messages that a restart found."""

    def make_dead_letter_worker(
        self, queue: QueueClient, letters: DeadLetterSource
    ) -> DeadLetterWorker:
        """The worker that publishes the dead letters that a queue keeps."""

    def note_kept(self, queue: QueueClient, reason: str, count: int) -> None:
        """Messages, `count` of them, died in a queue that keeps its dead letters until they are
        confirmed.
        """

    def dead_letter(self, queue: QueueClient, messages: list[Message], reason: str) -> None:
        """Messages died in a queue that has a dead-letter exchange. Its work is counted."""

    def note_discarded(self, queue: QueueClient, reason: str, count: int) -> None:
        """Messages, `count` of them, died in a queue that has no dead-letter exchange."""

    def delete_queue(
        self, queue: QueueClient, requester: Requester = ..., answer: Answer[None] | None = ...
    ) -> None:
        """Have the queue deleted: `QueueClient.delete_now` is called when it is.

        answer: given when the deletion is on disk.
        """

    def delete_unused(self, queue: QueueClient, is_urgent: bool) -> None:
        """An auto-delete queue has lost its last consumer, or a queue expires: have it deleted.

        is_urgent: delete it in this turn, since a client waits. Otherwise in a later turn, if this
        one has no work left: a channel may end with very many consumers, and many queues expire
        together.
        """
