"""Unused queues that their node deletes without a request.

These are exclusive queues whose connection has ended, auto-delete queues without consumers, and
queues that expire. No client waits for the answer. So a deletion that cannot be written, or that
the cluster does not accept now, affects nothing else: it is tried again every second, until the
queue is deleted or used again.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator

from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.runtime.clock import Clock, Timer
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Turns
from leveret.storage.metadata.metadata import MetadataError

DELETE_QUEUE_WORK = 200
"""The work of deleting a queue, in the units of broker/runtime/turns.py."""
TRY_AGAIN_MS = 1_000

logger = logging.getLogger("leveret.vhost")


class OwnDeletions:
    """The deletions of one vhost, by its name. delete: deletes a queue, if it still exists."""

    def __init__(
        self, vhost: str, turns: Turns, clock: Clock, delete: Callable[[QueueClient], object]
    ) -> None:
        self._vhost = vhost
        self._turns = turns
        self._clock = clock
        self._delete = delete
        self._unused: deque[QueueClient] = deque()
        self._failed: dict[QueueClient, MetadataError] = {}
        self._timer: Timer | None = None
        self._is_logged = False

    def answer(self, queue: QueueClient) -> Answer[None]:
        """The answer to a deletion for which no client waits."""
        answer: Answer[None] = Answer()
        answer.when_given(lambda: self._answered(queue, answer))
        return answer

    def delete_unused(self, queue: QueueClient) -> None:
        """Delete a queue, in this turn or in later ones."""
        self._unused.append(queue)
        if len(self._unused) == 1:
            self._delete_by_the_turn(self._unused, self._delete_unused, "deleting unused queues")

    def delete_all(self, queues: Iterable[QueueClient], what: str) -> None:
        """Delete queues, in this turn or in later ones. what: the work, for logs."""
        self._delete_by_the_turn(deque(queues), self._delete, what)

    def close(self) -> None:
        """The vhost is deleted, or the broker stops: nothing is deleted or tried again."""
        # It belongs to the vhost: without the reference cycle it is freed at once.
        self._delete = _is_gone
        self._failed.clear()
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _delete_unused(self, queue: QueueClient) -> None:
        if not (queue.is_deleted or queue.auto_delete):
            logger.info("%r was not used for its x-expires time and is deleted", queue)
        self._delete(queue)

    def _delete_by_the_turn(
        self, queues: deque[QueueClient], delete: Callable[[QueueClient], object], what: str
    ) -> None:
        """Delete queues, each of which is freed at its step (broker/runtime/long_work.py)."""

        def steps() -> Iterator[int]:
            while queues:
                delete(queues.popleft())
                yield DELETE_QUEUE_WORK

        LongWork(self._turns, f"{what} in vhost {self._vhost!r}", steps()).start()

    def _answered(self, queue: QueueClient, answer: Answer[None]) -> None:
        try:
            answer.result()
        except MetadataError as error:
            self._failed[queue] = error
            if self._timer is None:
                self._timer = self._clock.call_later_ms(TRY_AGAIN_MS, self._try_again)

    def _try_again(self) -> None:
        self._timer = None
        failed, self._failed = self._failed, {}
        left = [queue for queue in failed if not (queue.is_deleted or _is_used(queue))]
        if not left:
            self._is_logged = False
        elif not self._is_logged:
            self._is_logged = True
            logger.warning(
                "failed to delete %d unused queues in vhost %r; retrying every second: %s",
                len(left), self._vhost, failed[left[0]],
            )  # fmt: skip
        self.delete_all(left, "trying again to delete unused queues")


def _is_gone(queue: QueueClient) -> None:
    """Do nothing: its vhost is deleted, and the queue with it, or the broker stops."""


def _is_used(queue: QueueClient) -> bool:
    """Whether a queue is used again. An exclusive queue belongs to its connection only."""
    return not queue.is_exclusive and bool(queue.figures.consumers())
