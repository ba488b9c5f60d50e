"""The declaration log checks, writes and applies declarations.

The source of a change (a channel method, the management API, an expired queue) submits declarations
and awaits the answer. On a single node they are written to the metadata store, applied and answered
immediately. A caller that replies to a client also awaits `Answer.synced`: many submissions share
one sync, which a thread does (storage/metadata/metadata_sync.py). In a cluster other nodes may have
to receive them first: then they are applied later, and the caller must look at the registry again,
since it may have changed in the meantime.

DC1, DC2, DC7 and DC8 are kept by the writer (declaration_writer.py).

DC3. Declarations are applied in the order in which they are submitted, one submission after the
    other, each checked before. A submission of very many declarations or deletions takes several
    turns of the event loop, and one that finds no room on the disk waits for a checkpoint;
    submissions that arrive in the mean time wait for its end.
DC4. Declarations that are submitted together are checked against the state before all of them, so
    none of them may depend on another one.
DC5. `synced` of the answer to declarations of objects that survive a restart is given after a sync
    of everything written until then, even if they change nothing: another client may have declared
    the same a moment ago. For others it is given immediately, without a sync.
DC6. Consumers of a deleted queue are told after the answer, and after its sync: delete-ok comes
    before basic.cancel, and a power cut brings no queue back whose consumers were cancelled.
"""

from collections import deque
from collections.abc import Generator, Iterator, Sequence
from typing import Protocol

from leveret.broker.declarations.requester import THE_NODE, Requester
from leveret.broker.declarations.values import Declaration
from leveret.broker.queues.contract.queue_client import Consumer
from leveret.broker.registry.declaration_writer import DeclarationWriter
from leveret.broker.registry.registry import Registry
from leveret.broker.runtime.long_work import LongWork, Step, begin
from leveret.broker.runtime.pending import Answer, Synced, given
from leveret.broker.runtime.turns import Turns
from leveret.storage.metadata.metadata import MetadataError
from leveret.storage.metadata.metadata_sync import MetadataSync

WORK_AT_ONCE = 2000
"""A submission of no more work (broker/runtime/turns.py) is carried out when `submit` returns."""
SUBMISSION_WORK, TELL_WORK = 100, 20
"""The work of a submission that waited, in addition to that of its declarations, and of notifying a
consumer that its queue is deleted."""


class NotTaken(MetadataError):
    """The cluster does not accept a change now; the text has the reason, also for the client."""


class DeclarationLog(Protocol):
    """Accepts declarations."""

    def submit(
        self,
        *declarations: Declaration,
        answer: Answer[None] | None = None,
        requester: Requester = THE_NODE,
    ) -> Answer[None]:
        """Write and apply declarations; the answer is given when they are applied, and its `synced`
        when they are on disk.

        They are applied when this returns, unless they wait for others (DC3), or are or delete very
        many.

        answer: the one to give and return, for a caller that acts on it before consumers of deleted
        queues are told. requester: for the audit.

        Raises the errors of `Registry.check`; if the declarations wait for others, the answer is
        refused with the error instead. It is refused with MetadataError if they cannot be written.
        """

    def synced(self) -> Answer[None]:
        """Return an answer that is given when everything submitted so far is on disk."""


class Submission:
    """The declarations that were submitted together (`DeclarationLog.submit`)."""

    __slots__ = ("answer", "declarations", "requester")

    def __init__(
        self,
        declarations: tuple[Declaration, ...],
        answer: Answer[None],
        requester: Requester,
    ) -> None:
        self.declarations = declarations
        self.answer = answer
        self.requester = requester


class LocalDeclarationLog:
    """The log of a single node: a declaration is usually written and applied when submitted."""

    def __init__(
        self, registry: Registry, writer: DeclarationWriter, sync: MetadataSync, turns: Turns
    ) -> None:
        self._registry = registry
        self._writer = writer
        self._sync = sync
        self._turns = turns
        self._waiting: deque[Submission] = deque()
        self._steps: Iterator[Step] | None = None

    def submit(
        self,
        *declarations: Declaration,
        answer: Answer[None] | None = None,
        requester: Requester = THE_NODE,
    ) -> Answer[None]:
        """Check, write and apply declarations, usually before this returns (`DeclarationLog`)."""
        answer = answer if answer is not None else Answer()
        submission = Submission(declarations, answer, requester)
        if self._steps is None:
            self._check(submission)
            self._begin(submission)
        else:
            self._waiting.append(submission)
        return answer

    def synced(self) -> Answer[None]:
        """Return an answer that is given when everything submitted so far is on disk."""
        if self._steps is None:
            return self._synced() or given(None)
        applied = self.submit()
        return Synced(lambda told: applied.when_given(lambda: self._sync.when_synced(told)))

    def close(self) -> None:
        """The node stops: submissions that are not written yet are dropped and get no answer."""
        self._waiting.clear()
        if isinstance(self._steps, Generator):
            self._steps.close()

    def _check(self, submission: Submission) -> None:
        for declaration in submission.declarations:
            self._registry.check(declaration)

    def _begin(self, submission: Submission) -> None:
        """Carry out a submission and those that follow it, over several turns if necessary."""
        steps = self._steps = self._carrying_out(submission)
        begin(self._turns, "declarations", steps, WORK_AT_ONCE)

    def _carrying_out(self, submission: Submission) -> Iterator[Step]:
        """The steps of one submission, and of those that arrive before its end."""
        try:
            yield from self._steps_of(submission)
            while self._waiting:
                submission = self._waiting.popleft()
                yield SUBMISSION_WORK
                try:
                    self._check(submission)
                    yield from self._steps_of(submission)
                except Exception as error:
                    # It is raised where the submitter awaits the answer.
                    submission.answer.refuse(error)
        finally:
            self._steps = None

    def _steps_of(self, submission: Submission) -> Iterator[Step]:
        """The steps of one submission (broker/runtime/long_work.py)."""
        registry, declarations = self._registry, submission.declarations
        kept = yield from registry.completing(declarations)
        needs_sync = any(map(registry.is_durable, (*declarations, *kept)))
        try:
            cancelled = yield from self._writer.performing(kept, submission.requester)
        except MetadataError as error:
            submission.answer.refuse(error)
            return
        synced = self._synced() if needs_sync else None
        submission.answer.give(None, synced)
        self._tell_cancelled(cancelled, synced is not None)

    def _synced(self) -> Synced | None:
        """An answer that is given after a sync; None if everything is on disk."""
        return None if self._sync.is_synced else Synced(self._sync.when_synced)

    def _tell_cancelled(self, cancelled: Sequence[Consumer], needs_sync: bool) -> None:
        """Tell the consumers of deleted queues (DC6)."""

        def tell(error: Exception | None) -> None:
            if error is None:
                steps = _telling(cancelled)
                LongWork(self._turns, "telling consumers of a deleted queue", steps).start()

        if not cancelled:
            return
        if needs_sync:
            self._sync.when_synced(tell)
        else:
            tell(None)


def _telling(cancelled: Sequence[Consumer]) -> Iterator[int]:
    for consumer in cancelled:
        consumer.tell_cancelled()
        yield TELL_WORK
