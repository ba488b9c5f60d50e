"""One declared stream on this node: its client, and the group's member here if there is one."""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from leveret.broker.events.stream_events import (
    ChunkCommitted,
    RetentionMoved,
    StreamChunk,
    StreamLimits,
)
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.cluster.groups.group_machine import Effect
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.groups import Groups
from leveret.cluster.groups.uses import GroupUse
from leveret.cluster.replicated_queues.membership_record import MembersRecord
from leveret.cluster.replicated_queues.replicated_queue import ReplicatedQueue
from leveret.cluster.streams.client.stream_queue_client import StreamQueueClient
from leveret.cluster.streams.client_questions import AnswerTo, ClientQuestions
from leveret.cluster.streams.log_upkeep import LogUpkeep
from leveret.cluster.streams.stream_machines import StreamGroupMachine
from leveret.storage.disk.disk import StoreError
from leveret.storage.stream_log.chunks import ChunkHead
from leveret.storage.stream_log.stream_log import StreamLog
from leveret.storage.stream_log.stream_store import StreamStore

logger = logging.getLogger("leveret.cluster")

Committed = Callable[[], object]
FIGURES = (
    "offset", "committed_offset", "first_offset", "readers", "segments", "size_bytes", "oldest_ms",
    "expires_ms",
)  # fmt: skip
"""The figures that a node shows of its member of a stream."""

logger = logging.getLogger("leveret.cluster")


class MemberLog:
    """The `OwnLog` of a member. log: the log of its chunks."""

    def __init__(self, member: GroupMember, machine: StreamGroupMachine, log: StreamLog) -> None:
        self.log = log
        self.machine = machine
        self.committed: Committed | None = None
        self._member = member

    @property
    def committed_entry(self) -> int:
        """The last chunk that is committed, and applied by this member's machine."""
        return self._member.applied

    @property
    def committed_offset(self) -> int:
        """The offset after the last committed message."""
        return self.machine.next_offset

    def watch(self, committed: Committed | None) -> None:
        """Have this called at the end of each turn in which chunks were committed."""
        self.committed = committed


class Saves(Protocol):
    """Takes snapshots of members."""

    def save(self, upkeep: LogUpkeep) -> None:
        """Take one, and call `saved`."""


class DeclaredStream(ReplicatedQueue):
    """One stream. own_log: of the member on this node; None if it has none that can be read.

    is_begun: its client is there.
    """

    queue: StreamQueueClient

    def __init__(
        self, group: int, vhost: str, name: str, record: MembersRecord, groups: Groups,
        streams: StreamStore, questions: ClientQuestions, saves: Saves,
        ended: Callable[[int, bool], object], *, is_new: bool,
    ) -> None:  # fmt: skip
        super().__init__(group, vhost, name, record, groups, ended, is_new=is_new)
        self.own_log: MemberLog | None = None
        self.questions = questions
        self._streams = streams
        self._saves = saves
        self._options: QueueOptions | None = None
        self._upkeep: LogUpkeep | None = None
        self._is_told = False
        self.is_begun = False

    def begin(self, queue: StreamQueueClient, use: GroupUse) -> None:
        """Set the parts of the stream, which is declared now."""
        self.queue, self.use = queue, use
        self._options = queue.options
        self.is_begun = True

    def configure(self, options: QueueOptions) -> None:
        """Take options that policies have changed."""
        if self._options is not None:
            # Policies apply to a queue before its declaration is complete.
            self._options = options
        if self._upkeep is not None:
            self._upkeep.configure(options)

    @property
    def replicas(self) -> list[str]:
        """The nodes other than the leader's that have a member and can be reached."""
        groups, leader = self._groups, self.use.leader
        silent = groups.silent_nodes
        return [
            node
            for node in self.record.nodes
            if node != leader and node not in silent and groups.reaches(node)
        ]

    # The member

    def look_at_member(self) -> None:
        """The member on this node, or its log, may be another one."""
        member, known = self.member, self.own_log
        stored = self._streams.streams.get(self.group)
        if member is None or member.damage or stored is None:
            if known is not None:
                self._forget_member()
                self.queue.member_changed()
            return
        machine = member.machine
        assert isinstance(machine, StreamGroupMachine), "the groups of this node are streams"
        if known is not None and known.machine is machine:
            return
        self._forget_member()
        self.own_log = MemberLog(member, machine, stored.log)
        machine.applied, machine.refused = self._applied, self._refused
        machine.committed = self._committed
        self._upkeep = LogUpkeep(
            self._groups, member, machine, stored, self._streams.write, self._saves.save,
            self._retention_moved,
        )  # fmt: skip
        if self._options is not None:
            self._upkeep.configure(self._options)
        self.queue.member_changed()

    def figures(self) -> dict[str, int | None]:
        """The figures of the member here, for operators; empty if there is none.

        Its last and its last committed offset are -1 without messages. oldest_ms: the time of its
        first messages, expires_ms: when retention by age removes its first segment; None if there
        are none, or if it removes none.
        """
        own, upkeep = self.own_log, self._upkeep
        if own is None or upkeep is None:
            return dict.fromkeys(FIGURES)
        log = own.log
        figures: tuple[int | None, ...] = (
            log.next_offset - 1, own.committed_offset - 1, log.first_offset,
            self.queue.readers.count, len(log.segments), log.size_bytes,
            _first_ms(log) if own.committed_offset > log.first_offset else None, upkeep.expires_ms,
        )  # fmt: skip
        return dict(zip(FIGURES, figures, strict=True))

    def _refused(self, node: str, reason: str) -> None:
        logger.error(
            "%s refuses a command of its client on %s: %s; its publishers are told that their "
            "unconfirmed messages may be lost", self.name, node, reason,
        )  # fmt: skip

    def _forget_member(self) -> None:
        self.own_log = None
        if self._upkeep is not None:
            self._upkeep.close()
            self._upkeep = None

    def _applied(self, entry: int) -> None:
        if not self._is_told:
            self._is_told = True
            self._groups.call_soon(self._tell)

    def _tell(self) -> None:
        self._is_told = False
        own = self.own_log
        if own is not None:
            own.log.applied(own.committed_entry)
            if own.committed is not None:
                own.committed()
        if self._upkeep is not None:
            self._upkeep.applied()

    # Traces

    def _committed(self, head: ChunkHead) -> None:
        """The member leads, and a chunk is committed."""
        tracer, own = self.queue.owner.tracer, self.own_log
        if tracer is not None and own is not None:
            chunk = StreamChunk(head.offset, head.message_count, head.entries_bytes, head.time_ms)
            tracer.stream_changed(ChunkCommitted(self.queue, chunk, self._limits(own.log)))

    def _retention_moved(self) -> None:
        tracer, own = self.queue.owner.tracer, self.own_log
        if tracer is not None and own is not None and self.use.leader == self.queue.node_name:
            tracer.stream_changed(RetentionMoved(self.queue, self._limits(own.log)))

    def _limits(self, log: StreamLog) -> StreamLimits:
        options = self.queue.options
        return StreamLimits(
            log.first_offset, options.max_age_ms, options.max_length_bytes, log.segment_bytes
        )

    def end(self, is_deleted: bool) -> None:
        """End: the stream is deleted, or the node stops."""
        self._forget_member()
        super().end(is_deleted)


def _first_ms(log: StreamLog) -> int | None:
    """The time of the first messages; None if the index cannot be read."""
    try:
        return log.first_ms()
    except StoreError as error:
        logger.error("the time of the first message of a stream: %s", error)
        return None


class StreamService:
    """The `StreamGroup` of a stream's client."""

    def __init__(self, declared: DeclaredStream) -> None:
        self.is_new = declared.is_new
        self._declared = declared

    @property
    def own_log(self) -> MemberLog | None:
        """The member on this node; None if it has none, or if it cannot be read."""
        return self._declared.own_log

    @property
    def leader(self) -> str:
        """The leader's node; empty if it is unknown."""
        return self._declared.use.leader

    @property
    def replicas(self) -> list[str]:
        """The other nodes that have a member, and can be reached. Members may be behind."""
        return self._declared.replicas

    def attach(self, session: int, sender: int, seen: int, received: Mapping[int, int]) -> None:
        """Start a session with the leader."""
        self._declared.use.attach(session, sender, seen, received)

    def send(self, session: int, commands: list[bytes]) -> None:
        """Send commands to the leader, which proposes them in this order."""
        self._declared.use.send(session, commands)

    def ask(self, question: bytes, answer: AnswerTo) -> None:
        """Ask the leader."""
        self._declared.use.ask(question, answer)

    def ask_member(self, node: str, question: bytes, answer: AnswerTo) -> None:
        """Ask the client on another node."""
        self._declared.questions.ask(self._declared.group, node, question, answer)

    def configure(self, options: QueueOptions) -> None:
        """Take options that policies have changed."""
        self._declared.configure(options)

    def close(self, is_deleted: bool) -> None:
        """End: the stream is deleted, or the node stops."""
        self._declared.use.close()
        self._declared.end(is_deleted)


class StreamGroupUser:
    """The `GroupUser` of a stream's client."""

    def __init__(self, queue: StreamQueueClient) -> None:
        self.leader_found = queue.leader_found
        self.leader_lost = queue.leader_lost
        self._told: Any = queue.told

    def told(self, session: int, effects: list[Effect], entries: Mapping[int, bytes]) -> None:
        """Take effects. They need no entries."""
        self._told(session, effects)
