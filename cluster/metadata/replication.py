"""Replication of metadata: views, and the log that the members of a view agree on.

The section Metadata of docs/design/cluster.md has the promises and the reasons. This state machine
is the whole protocol of one run of one node. It has no clock, disk or network: each input returns a
list of outputs (outputs.py) for its service. Its parts: the view that the node is in (views.py,
with next_view.py, proposal.py, fence.py and divergence.py), the end of its log (ordered_log.py),
the coordinator's order (ordering.py), the submissions of this node (submissions.py), and the facts
that a restart needs: which nodes to wait for (companions.py), and which views the node has agreed
to (promises.py).

V1. A view is installed at its members only, and only after all of them have agreed to it; a node
    agrees to proposals in the order of their ids, whether it restarts or not, and is bound to the
    last one.
V2. Entries of a view are ordered by its coordinator alone, so two logs with the same entry at an
    index are equal up to it.
V3. A log has no gaps. The members of a view begin with the same log, and append the coordinator's
    entries in its order.
V4. An operation is answered when all members of the view have applied it, on disk if they are disc
    nodes, and if there is one among them. So a node that was in a view has everything that was
    answered in it.
V5. A view begins with all entries that its members have from the proposer's view. So an operation
    answered in a view is in every later one that goes back to it (`OrderedLog.went_through`).
V6. A submission is in a log at most once, as done or as refused.
V7. A log is never merged with one that has diverged. It is replaced by a snapshot when the node
    starts, and the entries that only it had are reported before.
V8. The state machine's memory is bounded: kept entries, views, submissions in flight, entries that
    not all members have applied.
V9. A fenced node orders and answers nothing.
V10. Before the proposer of a view installs it, or sends `Install`, its disk names all members as
    companions. So it does not start without them after a crash, and they may continue without it.
"""

from collections import deque
from itertools import chain

import msgspec

from leveret.cluster.metadata.companions import Companions
from leveret.cluster.metadata.fence import FENCE_TICKS, Fence
from leveret.cluster.metadata.messages import (
    NO_VIEW,
    STARTING,
    Accept,
    AnnounceStatus,
    AnyMessage,
    AppendEntry,
    Ask,
    Diverged,
    Install,
    LogEntry,
    Obsolete,
    Partitioned,
    Propose,
    Refuse,
    Stable,
    SubmissionId,
    SubmitOperation,
    View,
    ViewId,
    ViewMember,
    WithdrawProposal,
    Written,
)
from leveret.cluster.metadata.ordered_log import OrderedLog
from leveret.cluster.metadata.ordering import WINDOW, Ordering
from leveret.cluster.metadata.outbox import Outbox
from leveret.cluster.metadata.outputs import (
    FAILED,
    AnswerClient,
    Apply,
    CheckSubmission,
    Discarded,
    Output,
    ViewInstalled,
    WriteCompanions,
    WritePromise,
)
from leveret.cluster.metadata.promises import Promises
from leveret.cluster.metadata.submissions import IN_FLIGHT_MAX, PENDING_MAX, Submissions
from leveret.cluster.metadata.views import MayGoOn, Views

NOT_RUNNING = b"the node is not a running member of its cluster"
NO_DISC_NODE = b"no disc node is running, and only disc nodes keep changes"
TOO_MANY = b"too many changes wait to be applied on all nodes"
STOPS = b"the node starts its broker again, since it has lost contact with other nodes"
REPLACED = b"the metadata of this node were replaced by those of the other nodes"


class ReplicationLimits(msgspec.Struct, frozen=True):
    """The bounds of the state machine: see the constants of the same names."""

    window: int = WINDOW
    in_flight_max: int = IN_FLIGHT_MAX
    pending_max: int = PENDING_MAX
    fence_ticks: int = FENCE_TICKS


class MetadataReplication:
    """One run of one node.

    me: this run. log: read from disk, or empty. last_view: the last installed before the restart.
    admitted: the names of the cluster's nodes. takes_from: if not empty, the node starts only with
    a view that one of these is in (the winners of an autoheal). may_go_on: the partition rule.
    companions: as last written (companions.py). promised: the highest view that it has agreed to
    (promises.py).

    views: the view that the node is in. submissions: its unanswered submissions.
    """

    def __init__(
        self,
        me: ViewMember,
        log: OrderedLog,
        last_view: View | None,
        admitted: frozenset[str],
        limits: ReplicationLimits | None = None,
        takes_from: tuple[str, ...] = (),
        may_go_on: MayGoOn = lambda names: True,
        companions: frozenset[str] = frozenset(),
        promised: ViewId = NO_VIEW,
    ) -> None:
        limits = limits or ReplicationLimits()
        self.me = me
        self.log = log
        self.admitted = admitted
        self.submissions = Submissions(
            me.name, me.incarnation, limits.in_flight_max, limits.pending_max
        )
        self.ordering: Ordering | None = None
        self._window = limits.window
        self._out = Outbox()
        last_view = last_view or View(NO_VIEW, ())
        fence = Fence(limits.fence_ticks)
        self._companions = Companions(me.name, companions, self._write_companions)
        self._promises = Promises(promised, self._write_promise)
        self.views = Views(
            me,
            log,
            last_view,
            self._companions,
            self._promises,
            fence,
            self._out,
            self._begin,
            takes_from,
            may_go_on,
        )
        self._number = 0
        self._to_write: deque[tuple[int, int]] = deque()
        self._number_of_view = 0
        self._stable = -1
        self._base = 0
        self._is_over = False

    @property
    def is_coordinator(self) -> bool:
        """Whether this node orders the submissions of the view."""
        return self.views.is_coordinator

    @property
    def stable(self) -> int:
        """The index up to which all members of the view have applied everything.

        -1 while it is unknown: at the beginning of a view, and while the node is fenced.
        """
        return self._stable if self.views.is_in_service else -1

    @property
    def is_settled(self) -> bool:
        """Whether all members of the view have applied everything in this node's log."""
        return self.stable >= self.log.last

    @property
    def heard(self) -> list[AnnounceStatus]:
        """The statuses received from linked nodes."""
        statuses = (linked.status for linked in self.views.peers.values())
        return [status for status in statuses if status is not None]

    @property
    def reached(self) -> frozenset[str]:
        """The nodes that are linked with this node or with one of its linked nodes."""
        return frozenset(chain(self.views.peers, *(status.links for status in self.heard)))

    # Inputs

    def linked(self, name: str, incarnation: int) -> list[Output]:
        """A link with a node is up. It ends one with an earlier run of the node."""
        self.views.linked(name, incarnation)
        return self._end_of_step()

    def unlinked(self, name: str) -> list[Output]:
        """The link with a node is down."""
        self.views.unlinked(name)
        return self._end_of_step()

    def received(self, sender: str, message: AnyMessage) -> list[Output]:
        """Handle a message from a linked node."""
        if sender in self.views.peers and not self._is_over:
            self._handle(sender, message)
        return self._end_of_step()

    def tick(self) -> list[Output]:
        """Called several times a second. Refused proposals are made again."""
        self.views.tick()
        return self._end_of_step()

    def suspended(self) -> list[Output]:
        """The process did not run for so long that the others may have continued without it."""
        self.views.unsettle()
        self.views.suspended()
        return self._end_of_step()

    def form(self, names: tuple[str, ...] = ()) -> list[Output]:
        """Begin a view without waiting for another node; the others join it.

        names: nodes that also start, and have to agree. Call it again if the view fails.
        """
        self.views.form(names)
        return self._end_of_step()

    def admit(self, names: frozenset[str]) -> list[Output]:
        """The nodes of the cluster have changed."""
        self.admitted = names
        self.views.unsettle()
        return self._end_of_step()

    def written(self, number: int, *, is_synced: bool = True) -> list[Output]:
        """Outputs up to this number are on disk.

        is_synced: whether they are synced by now. A RAM node does not wait for the sync, but its
        companions and promises count only once they are synced.
        """
        index = None
        while self._to_write and self._to_write[0][0] <= number:
            index = self._to_write.popleft()[1]
        if index is not None and number >= self._number_of_view and self.views.takes_part:
            if self.ordering is not None:
                self._applied(self.me.name, index)
            else:
                self._send(self.views.view.names[0], Written(self.views.view.id, index))
        if is_synced:
            self._companions.written(number)
            self._promises.written(number)
            self.views.conclude()
        return self._end_of_step()

    def submit(self, payload: bytes) -> tuple[SubmissionId, list[Output]]:
        """Submit an operation; its answer is an output of this step or of a later one."""
        reason = self._why_not()
        if reason:
            submission = self.submissions.next_id()
            self._out.add(AnswerClient(submission, FAILED, reason))
        else:
            submission = self.submissions.add(payload)
        return submission, self._end_of_step()

    def checked(self, check: CheckSubmission, payload: bytes, is_refused: bool) -> list[Output]:
        """Take the answer to `CheckSubmission`: the payload to apply, or the fault of a refusal.

        It is ordered when the node may order, and dropped if the view has ended: the node of origin
        submits it again in the next view.
        """
        if check.view == self.views.view.id:
            assert self.ordering is not None, "V2: only the coordinator orders"
            self.ordering.checked(check.submission, payload, is_refused)
        return self._end_of_step()

    # After every input

    def _end_of_step(self) -> list[Output]:
        if self._is_over:
            return self._out.take()
        self.views.settle(self.admitted)
        if self.views.ending is None:
            self._pump()
        else:
            self._is_over = True
            self._fail(self.submissions.drain(), STOPS)
            self._out.add(self.views.ending)
        return self._out.take()

    def _pump(self) -> None:
        """Answer, send waiting submissions, and check the next one, where each is allowed."""
        views = self.views
        if self._stable >= self._base and not views.is_proposing:
            self._companions.replace(frozenset(views.view.names))
        if not views.fence.is_up:
            self._out.add(*self.submissions.stable(self._stable))
        if not views.is_in_service:
            return
        while (taken := self.submissions.take_next()) is not None:
            if self.ordering is not None:
                self.ordering.add(*taken)
            else:
                self._send(views.view.names[0], SubmitOperation(views.view.id, *taken))
        if self.ordering is not None and views.may_order:
            self._order(self.ordering)

    def _order(self, ordering: Ordering) -> None:
        """Order the checked submission, and have the next one checked."""
        entry = ordering.take_checked()
        if entry is not None:
            self._append(entry)
            self._send_to_members(AppendEntry(entry))
        taken = ordering.take_next()
        if taken is not None:
            self._out.add(CheckSubmission(self.views.view.id, *taken))

    def _why_not(self) -> bytes:
        """The reason why nothing can be submitted."""
        if self._is_over or self.views.phase == STARTING:
            return NOT_RUNNING
        if not self._disc_nodes():
            return NO_DISC_NODE
        return TOO_MANY if self.submissions.is_full else b""

    def _disc_nodes(self) -> frozenset[str]:
        return frozenset(member.name for member in self.views.view.members if member.is_disc)

    def _fail(self, submissions: list[SubmissionId], reason: bytes) -> None:
        self._out.add(*(AnswerClient(one, FAILED, reason) for one in submissions))

    def _send(self, name: str, message: AnyMessage) -> None:
        if name in self.views.peers:
            self._out.send(name, message)

    def _send_to_members(self, message: AnyMessage) -> None:
        for name in self.views.view.names:
            if name != self.me.name:
                self._send(name, message)

    # Messages

    def _handle(self, sender: str, message: AnyMessage) -> None:
        views = self.views
        if not isinstance(message, AppendEntry | SubmitOperation | Written | Stable):
            views.unsettle()
        match message:
            case AnnounceStatus():
                views.handle_status(sender, message)
            case Ask():
                views.handle_ask(sender, message)
            case Propose():
                views.handle_propose(sender, message)
            case Accept():
                views.handle_accept(sender, message)
            case Refuse():
                views.handle_refuse(sender, message)
            case WithdrawProposal():
                views.handle_cancel(message)
            case Install():
                views.handle_install(message)
            case Obsolete():
                views.handle_obsolete(message)
            case Diverged():
                views.handle_diverged(sender, message)
            case AppendEntry() if message.entry.view == views.view.id:
                if views.takes_entries:
                    self._append(message.entry)
            case SubmitOperation() | Written() | Stable() | Partitioned() if (
                message.view == views.view.id
            ):
                self._handle_in_view(sender, message)

    def _handle_in_view(
        self, sender: str, message: SubmitOperation | Written | Stable | Partitioned
    ) -> None:
        match message:
            case SubmitOperation() if self.ordering is not None:
                self.ordering.add(message.submission, message.payload)
            case Written() if self.ordering is not None:
                self._applied(sender, message.index)
            case Stable():
                self._is_stable(message.index)
            case Partitioned():
                self.views.divergence.told(message.names)

    # The log

    def _append(self, entry: LogEntry) -> None:
        self.log.append(entry)
        self.submissions.appeared(entry)
        self._out.add(Apply(self._next_number(entry.index), entry))

    def _next_number(self, index: int) -> int:
        """The number of an output that requests a write. index: the log's end after it."""
        self._number += 1
        self._to_write.append((self._number, index))
        return self._number

    def _write_companions(self, companions: frozenset[str]) -> int:
        self._number += 1
        self._out.add(WriteCompanions(self._number, companions))
        return self._number

    def _write_promise(self, view: ViewId) -> int:
        self._number += 1
        self._out.add(WritePromise(self._number, view))
        return self._number

    def _applied(self, name: str, index: int) -> None:
        """Note that a member has applied everything up to an index of this node's view."""
        assert self.ordering is not None
        if self.ordering.applied(name, index):
            self._is_stable(self.ordering.stable)
            self._send_to_members(Stable(self.views.view.id, self.ordering.stable))

    def _is_stable(self, index: int) -> None:
        """Note a stable index: all members of the view have applied everything up to it."""
        self._stable = max(self._stable, index)

    def _begin(self, install: Install) -> None:
        """Begin a view at this node. The proposer's own message has no views of the log."""
        view, log = install.view, self.log
        assert self._promises.hold(view), "V1: a restart would forget that the node is bound to it"
        if install.snapshot is not None:
            self._replace(install)
        for entry in install.entries:
            log.append(entry)
            self.submissions.appeared(entry)
        assert log.last == install.base, f"V3: the log ends at {log.last}, not {install.base}"
        if install.starts:
            log.follow(install.starts)
        else:
            log.begin(view.id)
        self.views.installed(view)
        is_mine = view.members[0] == self.me
        is_kept = self._companions.hold(frozenset(view.names))
        assert is_kept or not is_mine, "V10: the disk does not name all members as companions"
        self.ordering = Ordering(view, log.last, self._window) if is_mine else None
        self.submissions.start_again()
        number = self._number_of_view = self._next_number(log.last)
        self._base = log.last
        companions = self._companions.names | frozenset(view.names)
        self._companions.are_written_by(number, companions)
        self._out.add(
            ViewInstalled(
                number,
                view,
                log.starts,
                log.last,
                install.entries,
                install.snapshot,
                companions,
            )
        )
        if not self._disc_nodes():
            self._out.add(*self.submissions.stable(self._stable))
            self._fail(self.submissions.drain(), NO_DISC_NODE)
        # V4: members of this view may lack entries that all members of the previous one had.
        self._stable = -1

    def _replace(self, install: Install) -> None:
        """A snapshot replaces the log; entries that only this node had are reported (V7)."""
        common = self.log.last_common(install.starts, install.base)
        alone = tuple(entry for entry in self.log.kept if entry.index > common)
        if self.log.last > common:
            self._out.add(Discarded(common + 1, self.log.last, alone))
        self._fail(self.submissions.drain(), REPLACED)
        self.log.replace(install.starts, install.base)
