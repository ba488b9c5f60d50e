"""The declaration log of a node in a cluster: what is declared on one node is declared on all.

It carries out what the replication (replication.py) asks for, over links, with the node's registry
and metadata store:

    submit ─► check ─► Submit to the coordinator ─► its check and completion ─► Append to all
                                                                                   │
    answer ◄─ Stable to all ◄─ Written by all ◄─ sync ◄─ rows and history, registry ◄┘

A node that belongs to no cluster, or to one of its own, declares by itself (`LocalDeclarationLog`)
and keeps no history. The replication begins with `begin`.

D1. Declarations are checked twice: where they are submitted, so that most mistakes cost no message,
    and by the coordinator, against the state after all that was ordered before.
D2. Only the node on which something was declared emits its event and tells the audit.
D3. What does not survive a restart is not in a store. So a node that joins and needs only the
    entries that it missed also gets, right after them, all that is declared and not durable.
D4. What was on a node and does not survive its end is deleted: by the coordinator when the node is
    not in the view, and by the node itself when it is back.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager

from msgspec.structs import replace

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations import Declaration, DeleteQueue
from leveret.broker.events.events import Events
from leveret.broker.pending import Answer, Synced, given
from leveret.broker.queues.queue_client import Consumer
from leveret.broker.registry.contents import changes, contents
from leveret.broker.registry.declaration_log import LocalDeclarationLog
from leveret.broker.registry.declaration_writer import DeclarationWriter
from leveret.broker.registry.registry import Registry
from leveret.broker.requester import THE_NODE, Requester
from leveret.cluster.links.services import METADATA_SERVICE, Peer
from leveret.cluster.metadata.history import History, LastView
from leveret.cluster.metadata.member_records import change_members
from leveret.cluster.metadata.messages import (
    AnyMessage,
    Entry,
    Install,
    SubmissionId,
    View,
    decode,
    encode,
)
from leveret.cluster.metadata.operations import (
    decode_all,
    decode_refusal,
    encode_all,
    encode_refusal,
)
from leveret.cluster.metadata.outputs import (
    DONE,
    REFUSED,
    Answered,
    Apply,
    Check,
    Discarded,
    Established,
    Installed,
    Output,
    PartitionedFrom,
    Pause,
    Restart,
    Send,
    SendSnapshot,
)
from leveret.cluster.metadata.replication import Replication
from leveret.storage.metadata import MetadataError
from leveret.storage.metadata_sync import MetadataSync

Callback = Callable[[Exception | None], object]
PASSING = b"P"
"""Before what is declared and not durable (D3). MessagePack structs begin with another octet."""


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
        """It is applied on this node: who submitted it goes on, and replies when all have it."""
        self.answer.give(None, Synced(self.when_everywhere))

    def everywhere(self) -> None:
        """All nodes have it."""
        self.answer.give(None)
        self._end(None)
        _tell(self.cancelled)

    def failed(self, error: Exception) -> None:
        """It is refused, or nobody can tell what became of it."""
        self.answer.refuse(error)
        self._end(error)
        _tell(self.cancelled)

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


class ReplicatedDeclarations:
    """See `DeclarationLog` and `Service`.

    local: declares while there is no replication. view: the last one that was installed in this
    run; None until the node has joined.

    Each of these may be replaced: members_changed is called when the nodes of the cluster have
    changed; joined once, when the node has all that is declared; discarded with entries that only
    this node had, before they are replaced; partitioned with the nodes whose history differs, or
    none; restart_wanted with the nodes from which this one has to take everything, after a restart;
    paused with the nodes that it can reach, when the partition rule makes it stop; failed with the
    error when something ordered cannot be applied, after which the node must not go on.
    """

    def __init__(
        self,
        registry: Registry,
        writer: DeclarationWriter,
        sync: MetadataSync,
        history: History,
        events: Events,
        local: LocalDeclarationLog,
    ) -> None:
        self.view: View | None = None
        self.joined: Callable[[], object] = lambda: None
        self.members_changed: Callable[[], object] = lambda: None
        self.discarded: Callable[[Sequence[Entry]], object] = lambda entries: None
        self.partitioned: Callable[[tuple[str, ...]], object] = lambda names: None
        self.restart_wanted: Callable[[tuple[str, ...]], object] = lambda takes_from: None
        self.paused: Callable[[tuple[str, ...]], object] = lambda members: None
        self.failed: Callable[[Exception], object] = lambda error: None
        self._registry = registry
        self._writer = writer
        self._sync = sync
        self._history = history
        self._events = events
        self._local = local
        self._replication: Replication | None = None
        self._peers: dict[str, Peer] = {}
        self._submitted: dict[SubmissionId, Submitted] = {}
        self._outputs: deque[Output] = deque()
        self._is_busy = False
        self._has_joined = False
        self._newcomers: set[str] = set()

    # As a declaration log

    def submit(
        self,
        *declarations: Declaration,
        answer: Answer[None] | None = None,
        requester: Requester = THE_NODE,
    ) -> Answer[None]:
        """See `DeclarationLog.submit`. The answer is given when they are applied on this node, and
        its `synced` when all nodes have them, on disk if they are disc nodes.
        """
        if self._replication is None:
            return self._local.submit(*declarations, answer=answer, requester=requester)
        for declaration in declarations:
            self._registry.check(declaration)
        answer = answer if answer is not None else Answer()
        self._submit(encode_all(declarations), Submitted(answer, requester))
        return answer

    def synced(self) -> Answer[None]:
        """See `DeclarationLog.synced`: all nodes have on disk what is declared on this one."""
        if self._replication is None:
            return self._local.synced()
        return given(None) if self._replication.is_settled else self._barrier()

    def _barrier(self) -> Answer[None]:
        """Given when everything that was ordered until now is on all nodes."""

        def when_everywhere(callback: Callback) -> None:
            submitted = Submitted(Answer(), THE_NODE)
            submitted.when_everywhere(callback)
            self._submit(encode_all(()), submitted)

        return Synced(when_everywhere)

    def _submit(self, payload: bytes, submitted: Submitted) -> None:
        assert self._replication is not None
        submission, outputs = self._replication.submit(payload)
        self._submitted[submission] = submitted
        self._carry_out(outputs)

    # Beginning and ending

    def begin(self, replication: Replication) -> None:
        """Replicate from now on."""
        self._replication = replication
        for peer in self._peers.values():
            self._carry_out(replication.linked(peer.name, peer.incarnation))

    def end(self, reason: str) -> None:
        """The node stops, or leaves the cluster: refuse what is not answered."""
        self._replication = None
        submitted, self._submitted = self._submitted, {}
        for one in submitted.values():
            one.failed(MetadataError(reason))

    def form(self) -> None:
        """See `Replication.form`."""
        self._input(Replication.form)

    def admit(self, names: frozenset[str]) -> None:
        """See `Replication.admit`."""
        self._input(lambda replication: replication.admit(names))

    def tick(self) -> None:
        """See `Replication.tick`."""
        self._input(Replication.tick)

    def suspended(self) -> None:
        """See `Replication.suspended`."""
        self._input(Replication.suspended)

    # What links call

    def peer_up(self, peer: Peer) -> None:
        """See `Service`."""
        self._peers[peer.name] = peer
        self._input(lambda replication: replication.linked(peer.name, peer.incarnation))

    def peer_down(self, peer: Peer, reason: str) -> None:
        """See `Service`."""
        del self._peers[peer.name]
        self._input(lambda replication: replication.unlinked(peer.name))

    def received(self, peer: Peer, payload: bytes) -> None:
        """See `Service`. Raises ValueError for a payload that is no message."""
        if payload[:1] == PASSING:
            self._receive_passing(decode_all(payload[1:]))
            return
        message = decode(payload)
        self._input(lambda replication: replication.received(peer.name, message))

    def drained(self, peer: Peer) -> None:
        """See `Service`. What is in flight is bounded by the replication."""

    def _receive_passing(self, declarations: Sequence[Declaration]) -> None:
        """What is declared and not durable (D3). Those that exist already are skipped."""
        with self._events_of(None):
            for one in declarations:
                self._perform((one,), THE_NODE, None)
        self._join()

    def _join(self) -> None:
        """The node has all that is declared."""
        if not self._has_joined:
            self._has_joined = True
            self._delete_passing(self._is_here)
            self.joined()

    # Carrying out what the replication asks for

    def _input(self, give: Callable[[Replication], list[Output]]) -> None:
        if self._replication is not None:
            self._carry_out(give(self._replication))

    def _carry_out(self, outputs: Iterable[Output]) -> None:
        """Carry out outputs in their order, those of what follows from them after them."""
        self._outputs += outputs
        if self._is_busy:
            return
        self._is_busy = True
        try:
            while self._outputs:
                self._carry_out_one(self._outputs.popleft())
        except Exception as error:
            # What is left out is missing on this node alone, so it must not go on.
            self._outputs.clear()
            self.failed(error)
            raise
        finally:
            self._is_busy = False

    def _carry_out_one(self, output: Output) -> None:
        match output:
            case Send():
                self._send(output.to, output.message)
            case SendSnapshot():
                snapshot = encode_all(contents(self._registry))
                self._send(output.to, replace(output.install, snapshot=snapshot))
            case Apply():
                self._apply(output)
            case Installed():
                self._install(output)
            case Check():
                self._check(output)
            case Answered():
                self._answer(output)
            case Discarded():
                self.discarded(output.entries)
            case PartitionedFrom():
                self.partitioned(output.names)
            case Established():
                self._history.establish(output.companions)
            case Restart():
                self.restart_wanted(output.takes_from)
            case Pause():
                self.paused(output.members)

    def _send(self, name: str, message: AnyMessage) -> None:
        peer = self._peers.get(name)
        if peer is None:
            return
        peer.send(METADATA_SERVICE, encode(message))
        if isinstance(message, Install) and message.snapshot is None and name in self._newcomers:
            passing = (one for one in contents(self._registry) if self._is_passing(one))
            peer.send(METADATA_SERVICE, PASSING, encode_all(passing))

    def _is_passing(self, it: Declaration) -> bool:
        return not self._registry.is_durable(it)

    def _check(self, it: Check) -> None:
        """As the coordinator: what is left of a submission, or why it is refused (D1)."""
        assert self._replication is not None
        registry = self._registry
        try:
            declarations = decode_all(it.payload)
            for declaration in declarations:
                registry.check(declaration)
            payload, is_refused = encode_all(registry.complete(declarations)), False
        except (Fault, ValueError, re.error) as error:
            payload, is_refused = encode_refusal(error), True
        self._carry_out(self._replication.checked(it.submission, payload, is_refused))

    def _apply(self, it: Apply) -> None:
        entry = it.entry
        declarations = () if entry.is_refused else decode_all(entry.payload)
        mine = self._submitted.get(entry.submission)
        requester = THE_NODE if mine is None else mine.requester
        with self._events_of(mine):
            cancelled = self._perform(
                declarations, requester, lambda: self._history.append((entry,))
            )
        if mine is None:
            _tell(cancelled)
        else:
            mine.cancelled.extend(cancelled)
            if not entry.is_refused:
                mine.applied()
        self._when_written(it.number)

    def _install(self, it: Installed) -> None:
        """A view holds, with what this node lacked."""
        wanted: Sequence[Declaration]
        if it.snapshot is not None:
            wanted = changes(contents(self._registry), decode_all(it.snapshot))
        else:
            wanted = [
                one
                for entry in it.entries
                if not entry.is_refused
                for one in decode_all(entry.payload)
            ]
        last = LastView(it.view, it.starts, it.base, it.companions)

        with self._events_of(None), self._history.transaction():
            self._history.begin(last, is_replaced=it.snapshot is not None)
            self._history.append(it.entries)
            # One after the other: whether a binding is durable depends on what comes before it.
            for one in wanted:
                _tell(self._perform((one,), THE_NODE, None))
        self._when_written(it.number)
        before, self.view = self.view, it.view
        known = () if before is None else before.members
        self._newcomers = {member.name for member in it.view.members if member not in known}
        if it.snapshot is not None or self._is_coordinator:
            self._join()
        if self._is_coordinator:
            self._delete_passing(self._is_away)

    @property
    def _is_coordinator(self) -> bool:
        return self._replication is not None and self._replication.is_coordinator

    def _answer(self, it: Answered) -> None:
        submitted = self._submitted.pop(it.submission, None)
        if submitted is None:
            return
        if it.outcome == DONE:
            submitted.everywhere()
        elif it.outcome == REFUSED:
            submitted.failed(decode_refusal(it.detail))
        else:
            submitted.failed(MetadataError(it.detail.decode()))

    def _perform(
        self,
        declarations: Sequence[Declaration],
        requester: Requester,
        alongside: Callable[[], None] | None,
    ) -> Sequence[Consumer]:
        cancelled = self._writer.perform(declarations, requester, alongside)
        if change_members(declarations):
            self.members_changed()
        return cancelled

    @contextmanager
    def _events_of(self, mine: Submitted | None) -> Iterator[None]:
        """Only what was submitted here has events (D2)."""
        if mine is not None:
            yield
            return
        with self._events.silenced():
            yield

    def _when_written(self, number: int) -> None:
        """Tell the replication when all that was written so far is on disk."""

        def written(error: Exception | None) -> None:
            if error is None:
                self._input(lambda replication: replication.written(number))

        self._sync.when_synced(written)

    # What does not survive its node (D4)

    def _delete_passing(self, is_gone: Callable[[str], bool]) -> None:
        """Delete the queues that are not durable of nodes that have ended, or begun again."""
        for vhost in self._registry.vhosts.values():
            for queue in tuple(vhost.queues.values()):
                if (queue.is_exclusive or not queue.durable) and is_gone(queue.home.node):
                    self.submit(DeleteQueue(vhost.name, queue.name))

    def _is_here(self, node: str) -> bool:
        assert self._replication is not None
        return node in ("", self._replication.me.name)

    def _is_away(self, node: str) -> bool:
        return node != "" and self.view is not None and node not in self.view.names


def _tell(cancelled: Iterable[Consumer]) -> None:
    """Tell consumers whose queue was deleted."""
    for consumer in cancelled:
        consumer.tell_cancelled()
