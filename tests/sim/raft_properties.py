"""What has to hold in every run of a simulated Raft group, checked at every step, over all members.

The letters are those of docs/design/quorum-queues.md.
"""

from typing import TYPE_CHECKING

from leveret.cluster.raft.messages import Acknowledgement, AskVote, RaftMessage, Vote, VoteAnswer
from leveret.cluster.raft.outputs import CONFIGURATION, Append, RaftOutput, ResetLog, Send, Truncate
from leveret.cluster.raft.progress import LOST
from tests.sim.properties import require

if TYPE_CHECKING:
    from tests.sim.raft_world import Entry, RaftNode, RaftWorld


class RaftHistory:
    """What all members have written, said and applied so far."""

    def __init__(self, world: "RaftWorld") -> None:
        self.world = world
        self.leaders: dict[int, str] = {}
        self.committed: dict[int, tuple[Entry, int]] = {}
        self._committed_in: dict[int, int] = {}
        self._written: dict[tuple[int, int], tuple[int, int, bytes]] = {}
        self._votes: dict[tuple[str, int], str] = {}
        self.counts: dict[str, int] = {}

    def count(self, what: str) -> None:
        """Count what has happened, so that a scenario without it is noticed."""
        self.counts[what] = self.counts.get(what, 0) + 1

    # Elections

    def elected(self, node: "RaftNode", term: int) -> None:
        """A member leads in a term: election safety, leader completeness."""
        known = self.leaders.setdefault(term, node.name)
        require(known == node.name, f"QG1: {known} and {node.name} lead in term {term}")
        self.count("elected")
        entries = node.disk.entries()
        for index, (entry, _) in self.committed.items():
            if index > node.disk.snapshot.index and self._committed_in[index] < term:
                require(
                    entries.get(index) == entry,
                    f"QG2: {node.name} leads in term {term} without {index}, which is committed",
                )

    def sends(self, node: "RaftNode", output: Send) -> None:
        """A member says something: it has to be on its disk; RF1, RF2, RF6."""
        message: RaftMessage = output.message
        disk, me = node.disk, node.name
        is_pre_vote = isinstance(message, AskVote | Vote) and message.is_pre_vote
        if not is_pre_vote:
            require(disk.term >= message.term, "RF1:", me, "says term", message.term)
        if isinstance(message, AskVote) and not is_pre_vote:
            self._vote(node, message.term, me)
        if isinstance(message, Vote) and message.answer is VoteAnswer.GRANTED and not is_pre_vote:
            self._vote(node, message.term, output.to)
        if isinstance(message, Acknowledgement):
            self._acknowledged(node, output.to, message)

    def _vote(self, node: "RaftNode", term: int, candidate: str) -> None:
        known = self._votes.setdefault((node.name, term), candidate)
        require(known == candidate, "RF2:", node.name, "votes twice in", term)
        if node.disk.term == term:
            require(node.disk.vote == candidate, "RF1: a vote is not on the disk of", node.name)

    def _acknowledged(self, node: "RaftNode", to: str, message: Acknowledgement) -> None:
        index = message.match
        if index <= node.disk.snapshot.index:
            return
        entry = node.disk.on_disk().get(index)
        require(entry is not None, "RF6:", node.name, "acknowledges", index, "before its sync")
        leader = self.world.nodes[to].machine
        if leader is None or leader.leading is None or leader.state.term != message.term:
            return
        log = leader.state.log
        if index >= log.base_index:
            is_same = log.term_of(index) == entry[0]
            require(is_same, "RF6:", node.name, "acknowledges another entry", index)

    # Logs

    def wrote(self, node: "RaftNode", write: RaftOutput) -> None:
        """A member writes: log matching, and a leader only appends."""
        machine = node.machine
        assert machine is not None
        if isinstance(write, Truncate):
            require(write.first > node.applied, "RF5:", node.name, "truncates what it has applied")
            self.count("truncated")
        elif isinstance(write, ResetLog):
            self.count("reset")
        if not isinstance(write, Append):
            return
        entries = node.disk.entries()
        if write.kind == CONFIGURATION and machine.leading is not None:
            self._changes_members(node, entries, write)
        for place, payload in enumerate(write.payloads):
            index = write.first + place
            before = entries.get(index - 1)
            previous = before[0] if before else self._term_before(node, index)
            value = (previous, write.kind, payload)
            known = self._written.setdefault((index, write.term), value)
            require(known == value, "QG3: two entries", index, "of term", write.term, known, value)

    def _changes_members(
        self, node: "RaftNode", entries: dict[int, "Entry"], write: Append
    ) -> None:
        """A leader changes the members: RF8."""
        earlier = [one for one, (_, kind, _) in entries.items() if kind == CONFIGURATION]
        index = max([one for one in earlier if one < write.first], default=0)
        require(index <= node.applied, "RF8: two changes of the members at a time on", node.name)
        is_committed = node.applied <= node.disk.snapshot.index or (
            entries[node.applied][0] == write.term
        )
        require(is_committed, "RF8:", node.name, "changes members before its term's first commit")

    def _term_before(self, node: "RaftNode", index: int) -> int:
        machine = node.machine
        assert machine is not None
        snapshot = node.disk.snapshot
        return snapshot.term if snapshot.index == index - 1 else machine.state.log.base_term

    def applied(self, node: "RaftNode", index: int, entry: "Entry", value: int) -> None:
        """A member applies an entry: state machine safety, and that a majority has it."""
        known = self.committed.get(index)
        if known is not None:
            require(
                known == (entry, value), "QG4:", node.name, "applies", entry, "at", index, known
            )
            return
        self.committed[index] = (entry, value)
        self._committed_in[index] = node.machine.state.term
        machine = node.machine
        assert machine is not None
        is_last = index == machine.state.commit
        require(not is_last or entry[0] == machine.state.term, "RF7:", node.name, "commits", entry)
        is_leader = machine.leading or self.leaders.get(machine.state.term) == node.name
        require(is_leader, "RF7:", node.name, "follows, and commits", index)
        # A change of the members in the same round comes after this output.
        _, configuration = machine.state.log.configuration_at(max(node.disk.entries()))
        have = [
            voter
            for voter in configuration.voters
            if self.world.nodes[voter].disk.on_disk().get(index) == entry
            or self.world.nodes[voter].disk.snapshot.index >= index
        ]
        require(
            len(have) >= configuration.majority,
            f"QG2: {node.name} commits {index}, which only {have} of {configuration.voters} have",
        )

    def restarted(self, node: "RaftNode") -> None:
        """A member starts with what is on its disk."""
        machine = node.machine
        assert machine is not None
        for index, (entry, _) in self.committed.items():
            log = machine.state.log
            if index <= machine.state.commit and index > log.base_index:
                require(log.term_of(index) == entry[0], "QG4: restarted with another", index)

    def removed(self, node: "RaftNode") -> None:
        """A member is told that it is none: the newest committed configuration says so."""
        self.count("removed")

    def check_step(self) -> None:
        """After each step: limits, and no member is given up."""
        for node in self.world.nodes.values():
            machine = node.machine
            if machine is None:
                continue
            for one in machine.leading.progress if machine.leading else ():
                require(one.state != LOST, one.member, "is taken for lost")
            require(machine.state.commit == node.applied, "applied", node.applied, "of",
                    machine.state.commit, "on", node.name)  # fmt: skip

    # The end

    def check_all_committed(self) -> None:
        """A leader commits what is before its term without being asked to."""
        for node in self.world.leaders():
            require(node.applied == node.machine.state.log.last_index, "QG6: not all is committed")

    def check_end(self) -> None:
        """Everything is up and quiet: one leader, all have all, and no member has a timer."""
        world = self.world
        newest = max(self.leaders)
        leaders = [one for one in world.leaders() if one.machine.state.term >= newest]
        require(len(leaders) == 1, "QG6: leaders at the end:", [one.name for one in leaders])
        leader = leaders[0]
        log = leader.machine.state.log
        require(leader.applied == log.last_index, "QG6: not all is committed at the end")
        require(max(self.committed) == leader.applied, "QG2: committed is more than the leader has")
        for name in log.configuration.members:
            node = world.nodes[name]
            require(node.value == leader.value, "QG7:", name, "has not what the leader has")
            require(node.machine.leader == leader.name, name, "follows", node.machine.leader)
            known = node.machine.state.log.configuration
            require(known == log.configuration, "QG4:", name, "has the configuration", known)
            require(not [at for at in node.wakes if at > node.clock], "RF12:", name, "has a timer")
