"""A group whose members the tests step by hand: tests/sim/ring_world.py with words for it."""

from tests.sim.ring_world import RingWorld


class RingByHand(RingWorld):
    """Nodes a, b, c ..., all of them linked. What is left to happen is done by `settle`."""

    def __init__(self, names, members=None, **more):
        super().__init__(names, names if members is None else members, **more)

    def broadcast(self, name, count=1):
        """A member broadcasts, in one round."""
        for _ in range(count):
            self.do(("broadcast", name))
        self.do(("flush", name))

    def pass_on(self, sender, receiver, messages=None):
        """Deliver messages of one link, all or `messages` of them, each in a round of its own."""
        if messages is None:
            messages = len(self.ways[sender, receiver])
        for _ in range(messages):
            self.do(("arrive", sender, receiver))
            self.do(("flush", receiver))

    def crash(self, name, kept=100):
        """A node stops; what it sent arrives, unless `kept` says how many messages do."""
        self.do(("crash", name, kept))

    def declare_dead(self, name, *, by):
        """A neighbour finds the link down, waits, and has the death recorded."""
        self.pass_on(name, by)
        self.do(("pause over", by, self.nodes[by].pauses[0]))
        self.commit()

    def commit(self):
        """All that was submitted is committed."""
        while self.submissions:
            self.do(("commit", 0))

    def apply(self, *names):
        """Nodes apply all that is committed, one change after the other."""
        for name in names:
            while self.nodes[name].applied < len(self.log) - 1:
                self.do(("apply", name, 1))
            self.do(("flush", name))

    def skip_to_newest(self, name):
        """A node applies all that is committed, and sees the last of it only."""
        self.do(("apply", name, len(self.log) - 1 - self.nodes[name].applied))
        self.do(("flush", name))

    def settle(self):
        """Everything that is left happens; then all has to be quiet, and alike."""
        self.run_until_still()
        self.history.check_end(self)

    def member(self, name):
        """A node's member."""
        return self.nodes[name].machine.member

    def machine(self, name):
        """The machine of a node's member."""
        return self.nodes[name].machine

    def has(self, name, sender):
        """The last broadcast of a sender that a member has delivered."""
        return self.history.last[self.member(name)].get(sender, 0)

    def told(self, name):
        """Through which of its broadcasts a member was told that all have them."""
        return self.history.confirmed_through.get(self.member(name), 0)

    def ring(self):
        """The living members in the record, from the oldest on."""
        places = self.log[-1].living
        first = min(range(len(places)), key=lambda at: places[at].place_id)
        return "".join(one.member.node for one in places[first:] + places[:first])
