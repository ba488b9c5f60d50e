"""A declared queue whose messages are in a group, on this node: its client, record and member."""

from collections.abc import Callable

from leveret.broker.queues.contract.queue_client import QueueClient
from leveret.cluster.groups.group_member import GroupMember
from leveret.cluster.groups.groups import Groups
from leveret.cluster.groups.uses import GroupUse
from leveret.cluster.groups.wanted_members import WantedMembers
from leveret.cluster.replicated_queues.membership_record import MembersRecord


class ReplicatedQueue:
    """One queue. queue, use: exist once it is declared. record: its members; see `set_record`.

    vhost: its virtual host. name: of the queue, for the log. is_new: it was not found by a restart.
    lost: the name of the member that this node did not find when it started. lost_by_others: the
    members that other nodes have reported as lost, or as empty, while this one did not lead.
    waits_for_node: the member here can continue alone, if the other member's node is removed from
    the cluster. stuck_since_ms: when most of the voters were found to be lost, or no members by the
    record; 0 if they are not, -1 if this was logged.
    """

    queue: QueueClient
    use: GroupUse

    def __init__(
        self, group: int, vhost: str, name: str, record: MembersRecord, groups: Groups,
        ended: Callable[[int, bool], object], *, is_new: bool,
    ) -> None:  # fmt: skip
        """ended: called with the group when the client has ended, and whether it is deleted."""
        self.group = group
        self.vhost = vhost
        self.name = name
        self.is_new = is_new
        self.node = groups.node
        self.lost = ""
        self.lost_by_others: set[str] = set()
        self.waits_for_node = False
        self.stuck_since_ms = 0
        self.set_record(record)
        self._times_served = 0
        self._groups = groups
        self._ended = ended

    def set_record(self, record: MembersRecord) -> None:
        """Set the members that the queue should have."""
        self.record = record
        self.wanted = WantedMembers(
            record.names(are_voters=True), record.names(are_voters=False), record.next_number,
            record.forced_from,
        )  # fmt: skip

    @property
    def member(self) -> GroupMember | None:
        """The member on this node; None if there is none."""
        return self._groups.members.get(self.group)

    def begins_to_lead(self, member: GroupMember) -> bool:
        """The member serves clients. Returns whether it has just started to."""
        if self._times_served == member.times_served:
            return False
        self._times_served = member.times_served
        return True

    def leads_no_more(self, member: GroupMember) -> None:
        """The member does not serve."""

    def lacked(self, index: int) -> tuple[int, int]:
        """The messages that are only in later entries, and their bytes, if this node leads."""
        return 0, 0

    def end(self, is_deleted: bool) -> None:
        """End: the queue is deleted, or the node stops."""
        self._ended(self.group, is_deleted)
