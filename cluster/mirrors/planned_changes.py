"""Submits the changes of records that policies, views and other changes call for.

A queue is checked when its record or its policies have changed, and all queues are checked when the
view has changed. Each check plans again (planning.py), one change at a time: while a submitted
change is not answered, the queue is left alone, and then checked again. A refused change was
planned with an older record: the queue is checked when the newer one is applied.

    the leader's node       submits the changes that bring the queue to the nodes that its policy
    wants. A new mirror need not agree: its node starts when it applies the change the awaited node
    asks for its return, or to be forgotten if it has no messages the coordinator         reports
    queues without a living member

No change is submitted while a declaration is applied: it follows in turns of its own. A node that
is in no view submits none. A mirror in place of a copy ends that copy, so it is requested when the
record is stable: before that the entry by which the leader leads may be undone, and the queue may
wait for the copy.
"""

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping

from leveret.broker.amqp.errors import Fault, precondition_failed
from leveret.broker.declarations.values import ChangePlacement, Submit
from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.broker.queues.contract.queue_kind import CLASSIC
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.turns import Actor, Turns
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.cluster.gm.group import Added, Member
from leveret.cluster.links.services import Peer
from leveret.cluster.metadata.replicated_declarations import ReplicatedDeclarations
from leveret.cluster.mirrors.mirror_record import MirrorRecord
from leveret.cluster.mirrors.planning import (
    AddMirror,
    BeginMirroring,
    DropMirror,
    EndMirroring,
    ForgetCopy,
    Mirroring,
    NodesInView,
    Step,
    TransferLeadership,
    next_step,
    returns,
    vanished,
)
from leveret.cluster.mirrors.record_changes import (
    AwaitedNodeReturned,
    Change,
    Drop,
    DropCopy,
    InRing,
    MirroringBegan,
    MirroringEnded,
    NodeForgotten,
    Promote,
    Vanish,
    decode_record,
    encode,
)
from leveret.cluster.node_status.node_states import NodeStates
from leveret.storage.metadata.metadata import MetadataError

LOOK_WORK = 20
"""The work of checking a queue, in the units of broker/runtime/turns.py."""

logger = logging.getLogger("leveret.cluster")


class RunningView:
    """The view that a node is in. log, states: the node's own.

    A node that is in no view yet sees no nodes, not even itself.
    """

    def __init__(self, log: ReplicatedDeclarations, states: NodeStates, node: str) -> None:
        self._log = log
        self._states = states
        self._node = node

    @property
    def nodes(self) -> NodesInView:
        """Its members."""
        view, maintained = self._log.view, self._states.under_maintenance
        if self._states.is_under_maintenance:
            maintained |= {self._node}
        return NodesInView(frozenset(() if view is None else view.names), maintained)

    @property
    def is_coordinator(self) -> bool:
        """Whether this node coordinates it."""
        return self._log.is_coordinator

    def incarnation(self, node: str) -> int:
        """The incarnation of a node that is in the view."""
        view = self._log.view
        assert view is not None, "a node that is in no view asks for nothing"
        return next(one.incarnation for one in view.members if one.name == node)

    def when_stable(self, callback: Callable[[], object]) -> None:
        """Call back when everything applied so far is applied on all nodes of the view, on disk."""
        self._log.when_stable(callback)

    def lives(self, member: Member) -> bool:
        """Whether the node of a member is in the view, in the same run as the member."""
        view = self._log.view
        return view is not None and any(
            one.name == member.node and one.incarnation == member.incarnation
            for one in view.members
        )

    def is_apart(self, peer: Peer) -> bool:
        """Whether a linked node is on another side of a partition.

        A node that was only left out of the view, and is about to be taken back, is not.
        """
        return peer.name in self._log.partitioned_from


class PlannedChanges(Actor):
    """The changes that one node submits.

    is_over: the node stops, and submits no more changes. node: its name. mirroring_of: that of
    `MirroredFactory`. has_copy: whether the node has messages of the queue whose ring has this
    identity. choose: returns a number below its argument, at random.
    """

    def __init__(
        self,
        node: str,
        vhosts: Mapping[str, VirtualHost],
        submit: Submit,
        turns: Turns,
        mirroring_of: Callable[[str, QueueClient], Mirroring],
        view: RunningView,
        has_copy: Callable[[int], bool],
        choose: Callable[[int], int] = secrets.randbelow,
    ) -> None:
        super().__init__()
        self.is_over = False
        self._node = node
        self._vhosts = vhosts
        self._submit = submit
        self._turns = turns
        self._mirroring_of = mirroring_of
        self._view = view
        self._has_copy = has_copy
        self._choose = choose
        self._alone: set[tuple[str, str]] = set()
        self._due: dict[tuple[str, str], None] = {}
        self._asked: set[tuple[str, str]] = set()

    def look_at(self, vhost: str, name: str) -> None:
        """The record of a queue, or its policies, have changed: check it soon."""
        self._due[vhost, name] = None
        self._turns.wake(self)

    def end_mirroring(self, vhost: str, queue: QueueClient, answer: Answer[None]) -> None:
        """Have a queue that this node leads live here alone, until it follows its policies again.

        answer: refused with 406 if another node leads it.
        """
        self._alone.add((vhost, queue.name))
        record = decode_record(queue.placement.record)
        if record is None:
            answer.give(None)
            return
        if record.leader is None:
            answer.refuse(precondition_failed("it waits for a node that has its messages"))
            return
        change = encode(MirroringEnded(record.leader))
        self._submit(
            ChangePlacement(vhost, queue.name, queue.placement.identity, change), answer=answer
        )

    def follow_policies(self, vhost: str, name: str) -> None:
        """A queue that lived here alone gets the mirrors that its policies want."""
        self._alone.discard((vhost, name))
        self.look_at(vhost, name)

    def look_at_all(self) -> None:
        """The view has changed, or a node is put under maintenance."""
        self._turns.wake(LongWork(self._turns, "placing mirrored queues", self._looking_at_all()))

    def _looking_at_all(self) -> Iterator[int]:
        for vhost in tuple(self._vhosts.values()):
            for name in tuple(vhost.queues):
                self._look(vhost.name, name)
                yield LOOK_WORK

    def take_turn(self) -> None:
        """Check the queues that are due."""
        turns = self._turns
        while self._due and turns.work_left > 0:
            place = next(iter(self._due))
            del self._due[place]
            self._look(*place)
            turns.work_left -= LOOK_WORK
        if self._due:
            turns.wake(self)

    def _look(self, vhost_name: str, name: str) -> None:
        vhost = self._vhosts.get(vhost_name)
        queue = None if vhost is None else vhost.queues.get(name)
        if vhost is None or queue is None or queue.kind.name != CLASSIC or not self._may_ask:
            return
        if (vhost_name, name) in self._asked or (vhost_name, name) in self._alone:
            return
        record = decode_record(queue.placement.record)
        change = self._next_change(vhost, queue, record)
        if change is None:
            return
        if _replaces_copy(change, record):
            self._ask_when_stable(vhost, queue, change)
        else:
            self._ask_for(vhost_name, queue, change)

    @property
    def _may_ask(self) -> bool:
        return not self.is_over and self._node in self._view.nodes.running

    def _ask_when_stable(self, vhost: VirtualHost, queue: QueueClient, change: Change) -> None:
        """Submit a change of the current record, once that record is stable."""
        place = (vhost.name, queue.name)
        planned_with = queue.placement.record
        self._asked.add(place)

        def stable() -> None:
            self._asked.discard(place)
            if self._may_ask and queue.placement.record == planned_with:
                self._ask_for(vhost.name, queue, change)
            else:
                self.look_at(*place)

        self._view.when_stable(stable)

    def _ask_for(self, vhost: str, queue: QueueClient, change: Change) -> None:
        place = (vhost, queue.name)
        self._asked.add(place)
        declaration = ChangePlacement(vhost, queue.name, queue.placement.identity, encode(change))
        answer: Answer[None] = Answer()

        def answered() -> None:
            self._asked.discard(place)
            try:
                answer.result()
            except (MetadataError, Fault) as error:
                what = resource(QUEUE, queue.name, vhost)
                logger.info("the mirrors of %s are not changed: %s", what, error)
            else:
                self.look_at(*place)

        answer.when_given(answered)
        self._submit(declaration, answer=answer)

    def _next_change(
        self, vhost: VirtualHost, queue: QueueClient, record: MirrorRecord | None
    ) -> Change | None:
        view = self._view
        gone = vanished(record, view.lives)
        if gone:
            running = tuple(sorted(view.nodes.running))
            return Vanish(gone, running) if view.is_coordinator else None
        if record is not None and returns(record, self._node):
            return self._own_return(record)
        if self._leads(queue, record):
            mirroring = self._mirroring_of(vhost.name, queue)
            step = next_step(record, self._node, mirroring, view.nodes, self._choose)
            return None if step is None else self._change_of(step, record)
        return None

    def _own_return(self, record: MirrorRecord) -> Change:
        """The queue waits for this node. Without messages it has to wait for another one."""
        if self._has_copy(record.group.identity):
            return AwaitedNodeReturned(self._new_member(self._node, record))
        return NodeForgotten(self._node, tuple(sorted(self._view.nodes.running)))

    def _new_member(self, node: str, record: MirrorRecord | None) -> Member:
        """The next member of a node in the ring of a record."""
        newest = () if record is None else record.group.newest
        number = next((one.number for one in newest if one.node == node), 0)
        return Member(node, self._view.incarnation(node), number + 1)

    def _leads(self, queue: QueueClient, record: MirrorRecord | None) -> bool:
        if record is None:
            return queue.placement.node == self._node
        leader = record.leader
        return leader is not None and leader.node == self._node and self._view.lives(leader)

    def _change_of(self, step: Step, record: MirrorRecord | None) -> Change | None:
        if isinstance(step, BeginMirroring):
            return MirroringBegan(self._new_member(self._node, None), 1 + secrets.randbits(62))
        assert record is not None, "only what is mirrored is mirrored otherwise"
        assert record.leader is not None, "the leader asks"
        match step:
            case AddMirror():
                return InRing(Added(self._new_member(step.node, record), record.leader))
            case DropMirror():
                return Drop(step.member, record.leader)
            case TransferLeadership():
                return Promote(step.member, record.leader)
            case ForgetCopy():
                return DropCopy(step.node, record.leader)
            case EndMirroring():
                return MirroringEnded(record.leader)


def _replaces_copy(change: Change, record: MirrorRecord | None) -> bool:
    """Whether a node with the copy of an earlier mirror gets a new one."""
    if record is None or not isinstance(change, InRing) or not isinstance(change.change, Added):
        return False
    return any(copy.node == change.change.new.node for copy in record.has_copy)
