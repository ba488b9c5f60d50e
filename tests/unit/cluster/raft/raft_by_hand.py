"""A group whose steps are called by name: the simulator's world without chance.

The simulator's properties are checked at each step.
"""

from itertools import combinations
from random import Random

from leveret.cluster.raft.configuration import Configuration
from leveret.cluster.raft.entry_log import WINDOW_BYTES, Stored, StoredRun
from leveret.cluster.raft.messages import AskVote, Vote, VoteAnswer, decode_message
from leveret.cluster.raft.raft_member import RaftMember
from leveret.cluster.raft.status import status
from tests.sim.raft_world import RaftWorld

SETTLE_MS = 6_000


class RaftByHand(RaftWorld):
    """A group with all links up. leader: who leads."""

    def __init__(self, names, members=None, leader=None):
        super().__init__(names, members or names, Random(1))
        for one, other in combinations(names, 2):
            self.do(("connect", one, other))
        self.settle()
        if leader is not None and leader != self.leader:
            self.do(("transfer", self.leader, leader))
            self.settle()
            assert self.leader == leader

    def machine(self, name):
        return self.nodes[name].machine

    def status(self, name):
        return status(self.machine(name))

    @property
    def leader(self):
        """Who leads in the newest term."""
        leading = [one.machine for one in self.leaders()]
        return max(leading, key=lambda one: one.state.term).state.me

    def settle(self, ms=SETTLE_MS):
        self.run(ms)

    def propose(self, *sizes, by=None):
        self.do(("propose", by or self.leader, sizes or (4,)))

    def isolate(self, name):
        """The links of a member fall, and all learn of it."""
        self.do(("isolate", name, 0))

    def stop(self, name):
        """A member crashes, with all that is not synced."""
        self.do(("crash", name, 0, 0))

    def start(self, name):
        self.do(("start", name))
        self.join(name)

    def join(self, *names):
        """The links of members come up."""
        self.deliver()
        for name in names:
            for other in self.names:
                if other != name and self.may_connect(name, other):
                    self.do(("connect", name, other))

    def deliver(self):
        """All that is on the way arrives; no disk does anything."""
        while arrivals := self.arrivals():
            self.do(arrivals[0])

    def data(self, name):
        """The entries of data that a member has, synced or not."""
        return [entry[2] for entry in self.nodes[name].disk.entries().values() if entry[1] == 0]

    def said(self, name, sender, message):
        """What a member answers to a message, when its disk has answered."""
        node, way = self.nodes[name], self.ways[name, sender]
        before = len(way)
        node.machine.received(sender, message, node.clock)
        self.carry_out(node)
        self.do(("sync", name, len(node.disk.writes)))
        answers = [decode_message(way.pop()) for _ in range(len(way) - before)]
        return answers[::-1]

    def vote_of(self, name, sender, term, last_term=99, last_index=99, is_pre_vote=False):
        """The answer of a member to one that asks for its vote."""
        question = AskVote(5, term, is_pre_vote, last_index, last_term, 99)
        answers = [one for one in self.said(name, sender, question) if isinstance(one, Vote)]
        return answers[0].answer if answers else None


def elected(voters, *runs, term, window_bytes=WINDOW_BYTES):
    """A member by itself that restarts with entries, and is elected in the next term."""
    others = [one for one in voters if one != "a"]
    found = tuple([StoredRun(*run, []) for run in runs])
    stored = Stored(Configuration(tuple(voters)), term, runs=found)
    member = RaftMember(5, "a", stored, lambda: 0.5, window_bytes)
    for other in others:
        member.link_up(other, 1)
    member.take_outputs()
    member.wake(1_000)
    member.take_outputs()
    for is_pre_vote in (True, False):
        for other in others:
            member.received(other, Vote(5, term + 1, is_pre_vote, VoteAnswer.GRANTED), 1_001)
        member.take_outputs()
        member.synced(member.state.writes, 1_002)
        member.take_outputs()
    assert member.leading is not None
    return member


GRANTED, OLD_TERM, HAS_LEADER, HAS_VOTED, LOG_BEHIND, REMOVED = VoteAnswer
