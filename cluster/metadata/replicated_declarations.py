"""The declaration log of a node in a cluster: a declaration on one node is made on all nodes.

It carries out the outputs of the replication (replication.py) over links, with the node's registry
and metadata store:

    submit ─► check ─► Submit to the coordinator ─► its check and completion ─► Append to all
                                                                                   │
    answer ◄─ Stable to all ◄─ Written by all ◄─ sync ◄─ rows and history, registry ◄┘

A node that is not in a cluster, or is alone in its own, declares locally (`LocalDeclarationLog`)
and keeps no history. The replication begins with `begin`. Its outputs are carried out in order, and
long ones over several turns (ordered_steps.py). The other parts: inputs of the replication
(inputs.py), unanswered submissions of this node (submitted.py), carrying out declarations
(performing.py), and declarations that are not durable (passing.py).

RD1. Declarations are checked twice: where they are submitted, so that most mistakes cost no
     message, and by the coordinator, against the state after everything ordered before. Those
     submitted while an entry is half applied are checked by the coordinator only.
RD2. Only the node on which a declaration was submitted emits its event and audit entries.
RD3. Declarations that do not survive a restart are not in a store. So a joining node that needs
     only the entries that it missed also gets, right after them, all declarations that are not
     durable.
RD4. Queues of a node that do not survive its end are deleted: by the coordinator when the node is
     not in the view, and by the node itself when it is back.
RD5. A RAM node does not wait for its disk, except for its companions (V10 of replication.py). Its
     store identifies the messages of its queues and the entries that it has; it starts only with
     the metadata of a disc node.
RD6. After its end nothing is declared: no log would have it, and this node's rows would stay
     different from those of the others.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from msgspec.structs import replace

from leveret.broker.amqp.errors import Fault
from leveret.broker.declarations.requester import THE_NODE, Requester
from leveret.broker.declarations.values import Declaration
from leveret.broker.events.events import Events
from leveret.broker.registry.contents import changes, contents, lost
from leveret.broker.registry.declaration_log import LocalDeclarationLog, NotTaken
from leveret.broker.registry.declaration_writer import DeclarationWriter
from leveret.broker.registry.registry import Registry
from leveret.broker.runtime.pending import Answer, Synced, given
from leveret.broker.runtime.turns import Turns
from leveret.cluster.links.services import METADATA_SERVICE, Peer
from leveret.cluster.metadata import passing
from leveret.cluster.metadata.history import History, LastView
from leveret.cluster.metadata.inputs import Inputs
from leveret.cluster.metadata.log_listener import LogListener
from leveret.cluster.metadata.member_records import removed_members
from leveret.cluster.metadata.messages import (
    AnnounceStatus,
    AnyMessage,
    View,
    decode,
    encode,
)
from leveret.cluster.metadata.operations import (
    decode_all,
    encode_all,
    encode_refusal,
    encoding_all,
)
from leveret.cluster.metadata.ordered_steps import OrderedSteps, Steps
from leveret.cluster.metadata.outputs import (
    AnswerClient,
    Apply,
    CheckSubmission,
    Discarded,
    Output,
    PartitionedFrom,
    Pause,
    Restart,
    SendInstall,
    SendMessage,
    ViewInstalled,
    WriteCompanions,
    WritePromise,
)
from leveret.cluster.metadata.passing import Passing, PassingDeclarations
from leveret.cluster.metadata.performing import Performing
from leveret.cluster.metadata.replication import MetadataReplication
from leveret.cluster.metadata.stability import Stability
from leveret.cluster.metadata.submitted import Callback, Submitted, SubmittedHere
from leveret.cluster.rpc.refused import Refused
from leveret.storage.metadata.metadata_sync import MetadataSync

CHECK_WORK, SEND_WORK = 20, 40
"""The work of checking one declaration, and of sending a message or giving an answer, in the units
of broker/runtime/turns.py."""


class ReplicatedDeclarations:
    """A `DeclarationLog`, and a `Service` of links.

    local: declares before there is a replication. view: the last one installed in this run; None
    until the node has joined. partitioned_from: the running nodes on other sides. listener: see
    log_listener.py.
    """

    def __init__(
        self,
        registry: Registry,
        writer: DeclarationWriter,
        sync: MetadataSync,
        history: History,
        events: Events,
        local: LocalDeclarationLog,
        turns: Turns,
        listener: LogListener,
    ) -> None:
        self.view: View | None = None
        self.partitioned_from: tuple[str, ...] = ()
        self._listener = listener
        self._registry = registry
        self._sync = sync
        self._history = history
        self._local = local
        self._replication: MetadataReplication | None = None
        self._peers: dict[str, Peer] = {}
        self._early: dict[str, AnnounceStatus] = {}
        self._submitted = SubmittedHere()
        self._stability = Stability()
        self._performing = Performing(writer, events, turns, listener.members_changed)
        self._passing = PassingDeclarations(registry, turns, self.submit)
        self._inputs = Inputs(turns)
        self._work: OrderedSteps[Output | Passing] = OrderedSteps(
            turns, "declarations of the cluster", self._doing, listener.entry_failed
        )
        self._discarded: Discarded | None = None
        self._replacing: Answer[None] | None = None
        self._has_joined = False
        # The reason for refusing declarations after the end; empty before it.
        self._end_reason = ""

    # As a declaration log

    def submit(
        self,
        *declarations: Declaration,
        answer: Answer[None] | None = None,
        requester: Requester = THE_NODE,
    ) -> Answer[None]:
        """Submit declarations. The answer is given when they are applied on this node, and its
        `synced` when all nodes have them, on disk if they are disc nodes.
        """
        if self._end_reason:
            answer = answer if answer is not None else Answer()
            answer.refuse(NotTaken(self._end_reason))
            return answer
        if self._replication is None:
            return self._local.submit(*declarations, answer=answer, requester=requester)
        if not self._work.is_busy:
            for declaration in declarations:
                self._registry.check(declaration)
        answer = answer if answer is not None else Answer()
        self._submit(encode_all(declarations), Submitted(answer, requester))
        return answer

    def synced(self) -> Answer[None]:
        """Given when all nodes have this node's declarations on disk."""
        if self._end_reason:
            return self.submit()
        if self._replication is None:
            return self._local.synced()
        return given(None) if self._replication.is_settled else self._barrier()

    def when_stable(self, callback: Callable[[], object]) -> None:
        """Call back when all nodes of the view have everything that this node has applied so far,
        on disk if they are disc nodes. The callback is not called if this node stops first.
        """
        self._stability.when_stable(callback)
        self._tell_if_stable()

    def _tell_if_stable(self) -> None:
        if self._work.has_failed:
            # Entries that are stable on the other nodes are not applied here.
            return
        if self._replication is not None and self._stability.is_awaited:
            self._stability.advanced(self._replication.stable)

    def _barrier(self) -> Answer[None]:
        """Given when all nodes have everything that was ordered until now."""

        def when_everywhere(callback: Callback) -> None:
            submitted = Submitted(Answer(), THE_NODE)
            submitted.when_everywhere(callback)
            self._submit(encode_all(()), submitted)

        return Synced(when_everywhere)

    def _submit(self, payload: bytes, submitted: Submitted) -> None:
        self._listener.before_input()
        assert self._replication is not None
        submission, outputs = self._replication.submit(payload)
        self._submitted.add(submission, submitted)
        self._carry_out(outputs)

    # Beginning and ending

    def begin(self, replication: MetadataReplication) -> None:
        """Replicate from now on."""
        self._replication = replication
        for peer in self._peers.values():
            self._carry_out(replication.linked(peer.name, peer.incarnation))
            early = self._early.pop(peer.name, None)
            if early is not None:
                self._carry_out(replication.received(peer.name, early))

    def end(self, reason: str) -> None:
        """Refuse unanswered submissions, and all later ones: the node stops (RD6)."""
        if self._replication is not None:
            self._end_reason = reason
        self._replication = self.view = None
        self._inputs.close()
        self._work.close()
        self._stability.close()
        self._performing.tell(self._submitted.refuse_all(reason))

    def form(self, names: tuple[str, ...] = ()) -> None:
        """Begin a view without waiting for other nodes."""
        self._input(lambda replication: replication.form(names))

    def admit(self, names: frozenset[str]) -> None:
        """Set the nodes of the cluster, which have changed."""
        self._input(lambda replication: replication.admit(names))

    def tick(self) -> None:
        """Called several times a second."""
        self._input(MetadataReplication.tick)

    def suspended(self) -> None:
        """Called after a suspension of the process, before the inputs that arrived during it."""
        self._give(MetadataReplication.suspended)

    # What links call

    def peer_up(self, peer: Peer) -> None:
        """A link to a node is up."""

        def up() -> None:
            self._peers[peer.name] = peer
            self._give(lambda replication: replication.linked(peer.name, peer.incarnation))

        self._add(up)

    def peer_down(self, peer: Peer, reason: str) -> None:
        """The link to a node is down."""

        def down() -> None:
            del self._peers[peer.name]
            self._passing.link_down(peer.name)
            self._early.pop(peer.name, None)
            self._give(lambda replication: replication.unlinked(peer.name))

        self._add(down)

    def received(self, peer: Peer, payload: bytes) -> None:
        """Take a message. Raises ValueError for a payload that is not one."""
        not_durable = passing.read(payload)
        if not_durable is not None:
            self._add(lambda: self._work.add((not_durable,)))
        else:
            message = decode(payload)
            self._add(lambda: self._receive(peer.name, message))

    def _receive(self, name: str, message: AnyMessage) -> None:
        if self._replication is None and isinstance(message, AnnounceStatus):
            # A status is not sent again before it changes.
            self._early[name] = message
        self._give(lambda replication: replication.received(name, message))

    def drained(self, peer: Peer) -> None:
        """Do nothing: the replication bounds the messages in flight."""

    def _join(self) -> None:
        """Call `joined`: the node has all declarations."""
        if not self._has_joined:
            self._has_joined = True
            assert self._replication is not None
            self._passing.delete_own(self._replication.me.name)
            self._listener.joined()

    # Carrying out the outputs of the replication

    def _input(self, give: Callable[[MetadataReplication], list[Output]]) -> None:
        """Give the replication an input, after all earlier ones."""
        self._add(lambda: self._give(give))

    def _add(self, give: Callable[[], object]) -> None:
        self._listener.before_input()
        self._inputs.add(give)

    def _give(self, give: Callable[[MetadataReplication], list[Output]]) -> None:
        if self._replication is not None:
            self._carry_out(give(self._replication))

    def _carry_out(self, outputs: Iterable[Output]) -> None:
        """Carry out outputs in order; the outputs that they cause follow them."""
        self._work.add(outputs)
        self._tell_if_stable()

    def _doing(self, output: Output | Passing) -> Steps:
        match output:
            case SendMessage():
                yield from self._sending(output.to, output.message)
            case SendInstall():
                snapshot = yield from encoding_all(contents(self._registry))
                message = replace(output.install, snapshot=snapshot)
                yield from self._sending(output.to, message)
            case Apply():
                yield from self._applying(output)
            case ViewInstalled():
                yield from self._installing(output)
            case Passing():
                yield from self._receiving_passing(output.declarations)
            case CheckSubmission():
                yield from self._checking(output)
            case _:
                self._do_at_once(output)
                yield SEND_WORK

    def _do_at_once(self, output: Output) -> None:
        match output:
            case AnswerClient():
                self._performing.tell(self._submitted.answered(output))
            case Discarded():
                self._discarded = output
            case PartitionedFrom():
                self.partitioned_from = output.names
                self._listener.partitioned(output.names)
            case WriteCompanions():
                self._history.write_companions(output.companions)
                self._when_written(output.number)
            case WritePromise():
                self._history.write_promise(output.view)
                self._when_written(output.number)
            case Restart():
                self._listener.gives_way(output.takes_from)
            case Pause():
                self._listener.pauses(output.members)

    def _sending(self, name: str, message: AnyMessage) -> Steps:
        peer = self._peers.get(name)
        if peer is None:
            return
        peer.send(METADATA_SERVICE, encode(message))
        yield SEND_WORK
        lacked = yield from self._passing.lacked(name, message)
        if lacked is not None:
            peer.send(METADATA_SERVICE, passing.PASSING, lacked)

    def _checking(self, it: CheckSubmission) -> Steps:
        """Complete a submission, or refuse it with a reason, as the coordinator (RD1)."""
        registry = self._registry
        try:
            declarations = decode_all(it.payload)
            for declaration in declarations:
                registry.check(declaration)
                yield CHECK_WORK
            kept = yield from registry.completing(declarations)
            self._check_removals(declarations)
            payload, is_refused = encode_all(kept), False
        except (Fault, Refused, ValueError, re.error) as error:
            payload, is_refused = encode_refusal(error), True
        if self._replication is not None:
            self._carry_out(self._replication.checked(it, payload, is_refused))

    def _check_removals(self, declarations: Sequence[Declaration]) -> None:
        """Refuse to remove nodes that have come into the view since their removal was requested.

        No later view takes in a removed node, even before its removal is applied.
        """
        replication, removed = self._replication, removed_members(declarations)
        if replication is None or not removed:
            return
        for name in removed:
            self._listener.check_removal(name, replication.views.names_from_now_on)
        self._carry_out(replication.admit(replication.admitted - removed))

    def _applying(self, it: Apply) -> Steps:
        entry = it.entry
        self._stability.applied = entry.index
        declarations = () if entry.is_refused else decode_all(entry.payload)
        mine = self._submitted.get(entry.submission)

        def alongside() -> None:
            self._history.append((entry,))

        if mine is None:
            yield from self._performing.perform_silently(declarations, alongside)
        else:
            steps = self._performing.perform(declarations, mine.requester, alongside)
            mine.cancelled.extend((yield from steps))
            if not entry.is_refused:
                mine.applied()
        self._when_written(it.number)

    def _receiving_passing(self, declarations: Sequence[Declaration]) -> Steps:
        """Apply declarations that are not durable (RD3). Those that exist already are skipped."""
        for one in declarations:
            yield from self._performing.perform_silently((one,))
        self._join()

    def _installing(self, it: ViewInstalled) -> Steps:
        """Apply a view that holds, with the entries that this node lacked."""
        wanted: Iterable[Declaration]
        if it.snapshot is not None:
            theirs = decode_all(it.snapshot)
            if not self._may_replace(it, theirs):
                return
            wanted = changes(contents(self._registry), theirs)
        else:
            entries = (entry for entry in it.entries if not entry.is_refused)
            wanted = chain.from_iterable(decode_all(entry.payload) for entry in entries)
        last = LastView(it.view, it.starts, it.base, it.companions)
        self._stability.applied = it.base

        with self._history.transaction():
            self._history.begin(last, is_replaced=it.snapshot is not None)
            self._history.append(it.entries)
            # One after the other: whether a binding is durable depends on earlier declarations.
            for one in wanted:
                yield from self._performing.perform_silently((one,))
        self._when_written(it.number)
        before, self.view = self.view, it.view
        self._passing.view_begins(it.view, before)
        self._listener.view_changed()
        if it.snapshot is not None or self.is_coordinator:
            self._join()
        if self.is_coordinator:
            self._passing.delete_of_away(it.view)

    def _may_replace(self, it: ViewInstalled, theirs: Sequence[Declaration]) -> bool:
        """Whether `replacing` has answered (RD5); if not, the output waits for the answer."""
        if self._replacing is None:
            mine = lost(contents(self._registry), theirs)
            self._replacing = self._listener.replacing(mine, self._discarded)
        if not self._replacing.is_given:
            self._work.put_back(it, self._replacing)
            return False
        answer, self._replacing, self._discarded = self._replacing, None, None
        answer.result()
        return True

    @property
    def is_coordinator(self) -> bool:
        """Whether this node coordinates its view."""
        return self._replication is not None and self._replication.is_coordinator

    def _when_written(self, number: int) -> None:
        """Tell the replication when all writes so far are on disk, or will be soon (RD5)."""
        is_disc = self._replication is None or self._replication.me.is_disc

        def written(error: Exception | None) -> None:
            if error is None:
                self._input(lambda replication: replication.written(number))

        self._sync.when_synced(written)
        if not is_disc:
            self._input(lambda replication: replication.written(number, is_synced=False))
