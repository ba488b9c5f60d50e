"""Nodes that end just when they agree to a view, or install it: what they agreed to counts still.

Two nodes of three may go on. The three have run together, b leaves, and c and a are about to be the
next view. One of the two ends meanwhile and runs with b afterwards, and no entry is answered that a
later majority does not have.
"""

from itertools import combinations

import pytest

from leveret.cluster.metadata.messages import (
    RUNNING,
    Accept,
    AppendEntry,
    View,
    ViewId,
    ViewMember,
    ViewStart,
    decode,
)
from leveret.cluster.metadata.outputs import DONE
from leveret.cluster.partitions.rules import PauseMinority
from tests.sim.properties import History
from tests.sim.simulated_node import SimulatedNode
from tests.sim.world import Events, Link

NAMES = "bca"
"""In the order in which they joined their first view."""
STEP, PATIENCE = 5, 60_000


class Cluster:
    """Three nodes that a test starts and ends. sent: called with each message and its sender."""

    def __init__(self):
        self.events, self.history = Events(1), History()
        self.sent = lambda sender, message: None
        all_nodes = frozenset(NAMES)
        rule = PauseMinority(all_nodes)
        view = View(ViewId(1, "b", 0), tuple(ViewMember(name, 0) for name in NAMES))
        self.nodes = self.history.nodes = {
            name: SimulatedNode(
                name, True, self.events, self.history, all_nodes, self._send, rule, rule
            )
            for name in NAMES
        }
        for node in self.nodes.values():
            node.disk.view, node.disk.starts = view, (ViewStart(view.id, 1),)
            node.disk.companions = all_nodes
            node.pauses = lambda node, names: self.end(node.name)
        self.links = {
            frozenset(pair): Link(self.events, *(self.nodes[name] for name in pair))
            for pair in combinations(NAMES, 2)
        }

    def _send(self, sender, receiver, item):
        self.links[frozenset((sender, receiver))].send(sender, item)
        self.sent(sender, decode(item))

    def end(self, name):
        """A node is gone, and so are its links."""
        self.nodes[name].crash()
        self.break_links(name)

    def break_links(self, name):
        for pair, link in self.links.items():
            if name in pair:
                link.break_off()

    def run_together(self, *names):
        """These start, unless they run, and are in one view then."""
        for name in names:
            if not self.nodes[name].is_alive:
                self.nodes[name].start()
        self.run_until(lambda: all(self.has_view(name, names) for name in names))

    def has_view(self, name, names):
        machine = self.nodes[name].machine
        views = None if machine is None else machine.views
        return (
            views is not None
            and views.phase == RUNNING
            and not views.is_proposing
            and set(views.view.names) == set(names)
        )

    def run_until(self, is_so):
        end = self.events.now + PATIENCE
        while not is_so():
            assert self.events.now < end, "\n".join(self.events.lines())
            self.events.run_until(self.events.now + STEP)

    def declare(self, name, payload):
        """An operation that is answered."""
        answered = len(self.history.outcomes)
        self.nodes[name].submit(payload)
        self.run_until(lambda: len(self.history.outcomes) > answered)
        assert [*self.history.outcomes.values()][-1] == DONE

    def ends_when_it_sends(self, name, kind):
        """A node is gone when it has sent a message of a kind, which arrives."""

        def sent(sender, message):
            if sender == name and isinstance(message, kind):
                self.sent = lambda sender, message: None
                self.nodes[name].crash()

        self.sent = sent


@pytest.fixture
def cluster():
    made = Cluster()
    made.run_together(*NAMES)
    made.declare("b", b"declared by all")
    return made


def require_that_all_counts(cluster, *names):
    """What was answered is on these nodes, whose view is the last one."""
    answered = cluster.history.answered_entries.values()
    for name in names:
        assert set(answered) <= set(cluster.nodes[name].applied.hashes)


def test_a_node_that_ends_after_agreeing_to_a_view_begins_no_other_one_before_it(cluster):
    cluster.ends_when_it_sends("a", Accept)
    cluster.end("b")
    cluster.run_until(lambda: cluster.has_view("c", "ca"))
    cluster.nodes["c"].submit(b"declared by c alone")
    cluster.events.run_until(cluster.events.now + 100)
    cluster.end("c")
    cluster.break_links("a")
    cluster.run_together("a", "b")
    cluster.declare("a", b"declared by a and b")
    cluster.declare("b", b"declared by a and b as well")
    for name in "ab":
        cluster.end(name)
    cluster.run_together("c", "b")
    require_that_all_counts(cluster, "c", "b")


def test_a_node_that_ends_before_its_view_is_on_disk_begins_no_other_one_before_it(
    cluster,
):
    cluster.ends_when_it_sends("c", AppendEntry)
    cluster.end("b")
    cluster.nodes["c"].submit(b"declared by c and a, and not answered")
    cluster.run_until(lambda: cluster.has_view("a", "ca"))
    cluster.run_until(lambda: len(cluster.nodes["a"].disk.applied.entries) == 2)
    cluster.end("a")
    cluster.break_links("c")
    cluster.run_together("b", "c")
    cluster.declare("b", b"declared by b and c")
    for name in "bc":
        cluster.end(name)
    cluster.run_together("a", "b")
    require_that_all_counts(cluster, "a", "b")
