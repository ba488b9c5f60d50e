"""One declared quorum queue on this node: its client, and the group's member here if there is one.

While the member is the leader, it proposes commands of leaders: the options of the queue, and which
nodes are down or cannot be reached (node_states.py).
"""

import logging
from collections import deque
from collections.abc import Callable

from leveret.broker.amqp.errors import internal_error
from leveret.broker.queues.contract.arguments import QueueOptions
from leveret.broker.queues.contract.demand import Demand
from leveret.broker.runtime.names import QUEUE, SUCCESSOR_PREFIX, is_delaying, resource
from leveret.broker.runtime.pending import Answer
from leveret.broker.runtime.shared_features import SharedFeatures
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.groups import Groups
from leveret.cluster.groups.uses import GroupUse
from leveret.cluster.quorum.client.quorum_queue_client import QuorumQueueClient
from leveret.cluster.quorum.machine.commands import (
    DEDUPLICATION_FEATURE,
    QUORUM_RETRIES_FEATURE,
    Command,
    Configure,
    EndDelays,
    Options,
    encode_command,
    entry_of,
)
from leveret.cluster.quorum.machine.quorum_machine import QuorumMachine
from leveret.cluster.quorum.queue_group import QueueGroup
from leveret.cluster.quorum.queue_groups.dead_letters import LeaderDeadLetters
from leveret.cluster.quorum.queue_groups.machine_options import (
    DEFAULT_DELIVERY_LIMIT,
    DELAYING,
    QueueRules,
    machine_options,
)
from leveret.cluster.quorum.queue_machines import QueueMachine, never
from leveret.cluster.replicated_queues.membership_record import MembersRecord
from leveret.cluster.replicated_queues.replicated_queue import ReplicatedQueue

logger = logging.getLogger("leveret.queue")


class DeclaredGroup(ReplicatedQueue):
    """One quorum queue. letters: exist from `begin` on, as its queue and its use."""

    queue: QuorumQueueClient
    letters: LeaderDeadLetters

    def __init__(
        self, group: int, vhost: str, name: str, rules: QueueRules, record: MembersRecord,
        groups: Groups, ended: Callable[[int, bool], object], *, is_new: bool,
        consumer_timeout_ms: int | None, features: SharedFeatures,
    ) -> None:  # fmt: skip
        """consumer_timeout_ms: the node's. features: those of the cluster."""
        super().__init__(group, vhost, name, record, groups, ended, is_new=is_new)
        self.declared_at_s = groups.wall_ms() / 1000
        self._proposed: Options | None = None
        self._rules = rules
        self._consumer_timeout_ms = consumer_timeout_ms
        self._features = features
        self._service: QueueGroup | None = None
        self._ending_delays: deque[Answer[int]] = deque()
        self._demand: Demand | None = None

    def new_service(self) -> QueueGroup:
        """The service that the client uses."""
        service = self._service = QueueGroup(self)
        return service

    def begin(self, queue: QuorumQueueClient, use: GroupUse, letters: LeaderDeadLetters) -> None:
        """Set the parts of the queue, which is declared now."""
        self.queue, self.use, self.letters = queue, use, letters
        service, self._service = self._service, None
        assert service is not None, "the client was made with it"
        service.begin(use)
        self._wanted = queue.options
        self._options = self._machine_options()

    def _machine_options(self) -> Options:
        if is_delaying(self.queue.name):
            return DELAYING
        is_successor = self.queue.name.startswith(SUCCESSOR_PREFIX)
        return machine_options(
            self._wanted, self._rules, self._consumer_timeout_ms, is_successor=is_successor,
            takes_identifiers=self._features.all_have(DEDUPLICATION_FEATURE),
            takes_retries=self.takes_retries(),
        )  # fmt: skip

    def takes_retries(self) -> bool:
        """Whether all nodes multiply the delays of retries, let messages expire during them, and
        end them by request.
        """
        return self._features.all_have(QUORUM_RETRIES_FEATURE)

    # Calls of the client to the member

    def watch(self, demand: Demand | None) -> None:
        """Keep this demand up to date while this node leads; None: none."""
        self._demand = demand
        member = self._groups.members.get(self.group)
        if member is not None and member.is_serving:
            self._watch_demand(member)

    def _watch_demand(self, member: GroupMember) -> None:
        queue_machine(member).watch(self._demand)

    def wall_ms(self) -> int:
        """The wall clock."""
        return self._groups.wall_ms()

    def led(self) -> tuple[int, QueueMachine] | None:
        """The last applied entry and the machine of the member here, if it is the leader."""
        member = self._groups.members.get(self.group)
        if member is None or not member.is_serving:
            return None
        return member.applied, queue_machine(member)

    def configure(self, options: QueueOptions) -> None:
        """Propose options that policies have changed, while the leader is on this node."""
        if self._service is not None:
            # Policies apply to a queue before its declaration is complete.
            return
        self._wanted = options
        self._options = self._machine_options()
        self.letters.options_changed()
        member = self._groups.members.get(self.group)
        if member is not None and member.is_serving:
            self._propose_options(member)
            # Whether messages expire wherever they are is not a part of what is proposed.
            member.plan_tick()

    def nodes_changed(self, member: GroupMember) -> None:
        """Nodes have come or gone: propose options that all nodes understand from now on."""
        wanted = self._wanted
        if wanted.deduplicates or wanted.delayed_retry_type:
            self._options = self._machine_options()
            self._propose_options(member)

    def end(self, is_deleted: bool) -> None:
        """End: the queue is deleted, or the node stops."""
        self.letters.end()
        super().end(is_deleted)

    def lacked(self, index: int) -> tuple[int, int]:
        """The messages that are only in later entries, and their bytes, if this node leads."""
        member = self.member
        if member is None or member.raft.leading is None:
            return 0, 0
        return machine_of(member).messages.ready.after(index)

    # The member

    def begins_to_lead(self, member: GroupMember) -> bool:
        """The member serves clients. Returns whether it has just started to."""
        if not super().begins_to_lead(member):
            return False
        self._proposed = machine_of(member).messages.options
        self._options = self._machine_options()
        self._propose_options(member)
        self._log_default(member)
        self.letters.begin(member, machine_of(member).kept_letters())
        queue_machine(member).expires_on_time = self._expires_on_time
        member.plan_tick()
        if self._demand is not None:
            self._watch_demand(member)
        return True

    def leads_no_more(self, member: GroupMember) -> None:
        """The member does not serve."""
        self.letters.end()
        queue_machine(member).expires_on_time = never
        while self._ending_delays:
            self._ending_delays.popleft().refuse(
                internal_error(
                    "the leader of the queue has changed: look what waits, and try again"
                )
            )
        if self._demand is not None:
            queue_machine(member).watch(None)
            self._demand.end()

    def _expires_on_time(self) -> bool:
        return self.queue.expires_on_time

    def _log_default(self, member: GroupMember) -> None:
        """Log the default delivery limit of a new queue, once."""
        queue, leading = self.queue, member.raft.leading
        is_new = leading is not None and leading.first_index == 1
        if self._options.is_delaying:
            return
        if is_new and self._rules is not QueueRules.OF_3 and queue.options.delivery_limit is None:
            what = resource(QUEUE, queue.name, queue.vhost_name)
            logger.info(
                "%s: delivery_limit not set, defaulting to %d", what, DEFAULT_DELIVERY_LIMIT
            )

    def _propose_options(self, member: GroupMember) -> None:
        # What was proposed may not be applied yet.
        if self._proposed != self._options:
            self._proposed = self._options
            self.propose(member, [Configure(self._options)])

    def end_delays(self, member: GroupMember, command: EndDelays, answer: Answer[int]) -> bool:
        """Propose it; answer with the number of messages when it is applied. Returns whether it
        was proposed.
        """
        entry = entry_of(encode_command(command), self._groups.wall_ms())
        is_proposed = member.propose_entries([entry])
        if is_proposed:
            self._ending_delays.append(answer)
        return is_proposed

    def delays_ended(self, count: int) -> None:
        """The first of the proposals was applied."""
        if self._ending_delays:
            self._ending_delays.popleft().give(count)

    def propose(self, member: GroupMember, commands: list[Command]) -> None:
        """Propose commands of the leader."""
        now_ms = self._groups.wall_ms()
        member.propose_entries([entry_of(encode_command(one), now_ms) for one in commands])


def machine_of(member: GroupMember) -> QuorumMachine:
    """The machine of a member."""
    return queue_machine(member).queue


def queue_machine(member: GroupMember) -> QueueMachine:
    """The machine of a member, with its effects."""
    machine = member.machine
    assert isinstance(machine, QueueMachine), "the groups of this node are quorum queues"
    return machine
