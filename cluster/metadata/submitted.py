"""The outcomes of this node's submissions, passed to their requesters."""

from collections.abc import Callable, Sequence

from leveret.broker.declarations.requester import Requester
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.registry.declaration_log import NotTaken
from leveret.broker.runtime.pending import Answer, Synced
from leveret.cluster.metadata.messages import SubmissionId
from leveret.cluster.metadata.operations import decode_refusal
from leveret.cluster.metadata.outputs import DONE, REFUSED, AnswerClient
from leveret.storage.metadata.metadata import MetadataError

Callback = Callable[[Exception | None], object]


class Submitted:
    """A submission of this node that is not answered. cancelled: consumers of deleted queues."""

    __slots__ = ("_callbacks", "_outcome", "answer", "cancelled", "requester")

    def __init__(self, answer: Answer[None], requester: Requester) -> None:
        self.answer = answer
        self.requester = requester
        self.cancelled: list[Consumer] = []
        self._callbacks: list[Callback] | None = []
        self._outcome: Exception | None = None

    def applied(self) -> None:
        """Answer: it is applied on this node. The requester replies when all nodes have it."""
        self.answer.give(None, Synced(self.when_everywhere))

    def everywhere(self) -> None:
        """Note that all nodes have it."""
        self.answer.give(None)
        self._end(None)

    def failed(self, error: Exception) -> None:
        """Fail with an error: it is refused, or its outcome is unknown."""
        self.answer.refuse(error)
        self._end(error)

    def when_everywhere(self, callback: Callback) -> None:
        """Call back when all nodes have it, or with the error that ended it."""
        if self._callbacks is None:
            callback(self._outcome)
        else:
            self._callbacks.append(callback)

    def _end(self, error: Exception | None) -> None:
        callbacks, self._callbacks, self._outcome = self._callbacks, None, error
        for callback in callbacks or ():
            callback(error)


class SubmittedHere:
    """The submissions of this node that are not answered."""

    def __init__(self) -> None:
        self._by_id: dict[SubmissionId, Submitted] = {}

    def add(self, submission: SubmissionId, submitted: Submitted) -> None:
        """Note a submission under this id."""
        self._by_id[submission] = submitted

    def get(self, submission: SubmissionId) -> Submitted | None:
        """The submission with an id, if this node submitted it."""
        return self._by_id.get(submission)

    def answered(self, it: AnswerClient) -> Sequence[Consumer]:
        """Pass on an answer. Returns the consumers of deleted queues, to be notified."""
        submitted = self._by_id.pop(it.submission, None)
        if submitted is None:
            return ()
        if it.outcome == DONE:
            submitted.everywhere()
        elif it.outcome == REFUSED:
            submitted.failed(decode_refusal(it.detail))
        else:
            submitted.failed(NotTaken(it.detail.decode(errors="replace")))
        return submitted.cancelled

    def refuse_all(self, reason: str) -> Sequence[Consumer]:
        """Refuse unanswered submissions. Returns consumers of deleted queues, to be notified."""
        by_id, self._by_id = self._by_id, {}
        cancelled: list[Consumer] = []
        for one in by_id.values():
            one.failed(MetadataError(reason))
            cancelled += one.cancelled
        return cancelled
