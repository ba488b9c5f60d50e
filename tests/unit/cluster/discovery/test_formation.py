"""Who forms a cluster and who joins: the decision, one round at a time."""

import itertools

from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.formation import (
    AskPeers,
    Discover,
    Formation,
    FormCluster,
    JoinCluster,
    PeerState,
    Stop,
)

A, B, C = (NodeAddress(f"{name}@host") for name in "abc")
MEMBER, BLANK, UNREACHABLE = PeerState.MEMBER, PeerState.BLANK, PeerState.UNREACHABLE
ATTEMPTS = 3


def formation(own=A, has_lock=False):
    return Formation(own.name, ATTEMPTS, has_lock=has_lock)


def round_of(machine, states):
    """One round: the nodes are listed and answer; the result is what follows."""
    asked = machine.listed((A, B, C))
    assert isinstance(asked, AskPeers)
    return machine.answered({node.name: state for node, state in states.items()})


def test_a_node_that_is_listed_alone_forms_a_cluster():
    assert isinstance(formation().listed((A,)), FormCluster)
    assert isinstance(formation().listed(()), FormCluster)


def test_the_other_nodes_are_asked_once_each_in_the_order_of_names():
    assert formation(B).listed((C, A, B, C)) == AskPeers((A, C))


def test_a_running_member_is_joined():
    assert round_of(formation(), {B: BLANK, C: MEMBER}) == JoinCluster(C)


def test_a_running_member_is_joined_under_the_lock():
    assert round_of(formation(has_lock=True), {B: BLANK, C: MEMBER}) == JoinCluster(C)


def test_of_nodes_that_are_all_new_the_first_name_forms():
    assert isinstance(round_of(formation(A), {B: BLANK, C: BLANK}), FormCluster)
    assert isinstance(round_of(formation(B), {A: BLANK, C: BLANK}), Discover)


def test_the_holder_of_the_lock_forms_whatever_its_name():
    assert isinstance(round_of(formation(C, has_lock=True), {A: BLANK, B: BLANK}), FormCluster)


def test_a_node_forms_without_unreachable_nodes_at_its_last_attempt():
    machine = formation(A)
    for _ in range(ATTEMPTS - 1):
        assert isinstance(round_of(machine, {B: BLANK, C: UNREACHABLE}), Discover)
    assert isinstance(round_of(machine, {B: BLANK}), FormCluster)


def test_a_node_that_waits_for_the_first_one_does_not_form():
    machine = formation(B)
    for _ in range(2 * ATTEMPTS - 1):
        assert isinstance(round_of(machine, {A: BLANK}), Discover)
    last = round_of(machine, {A: BLANK})
    assert isinstance(last, Stop)
    assert "a@host" in last.reason


def test_attempts_start_over_when_the_first_node_goes_away():
    machine = formation(B)
    for _ in range(ATTEMPTS):
        assert isinstance(round_of(machine, {A: BLANK}), Discover)
    for _ in range(ATTEMPTS - 1):
        assert isinstance(round_of(machine, {}), Discover)
    assert isinstance(round_of(machine, {}), FormCluster)


def test_a_node_that_was_asked_by_one_before_it_does_not_form_in_that_round():
    machine = formation(B)
    machine.listed((A, B))
    machine.asked_by(A.name)
    assert isinstance(machine.answered({A.name: UNREACHABLE}), Discover)


def test_a_node_that_was_asked_by_one_after_it_forms():
    machine = formation(A)
    machine.listed((A, B))
    machine.asked_by(B.name)
    assert isinstance(machine.answered({B.name: BLANK}), FormCluster)


def test_a_list_that_fails_is_asked_for_again_up_to_the_limit():
    machine = formation()
    assert machine.listing_failed("no answer") == Discover(True, "no answer (2 attempts left)")
    assert machine.listing_failed("no answer") == Discover(True, "no answer (1 attempt left)")
    stop = machine.listing_failed("no answer")
    assert stop == Stop("the nodes of the cluster could not be listed: no answer")


def test_a_list_that_succeeds_ends_a_row_of_failures():
    machine = formation()
    for _ in range(3 * ATTEMPTS):
        assert isinstance(machine.listing_failed("no answer"), Discover)
        machine.listed((A, B))


def test_a_node_that_refuses_is_left_for_another_member():
    machine = formation()
    assert round_of(machine, {B: MEMBER, C: MEMBER}) == JoinCluster(B)
    assert isinstance(machine.join_failed(B, "it stops"), Discover)
    assert round_of(machine, {B: MEMBER, C: MEMBER}) == JoinCluster(C)


def test_a_cluster_that_cannot_be_joined_stops_the_node():
    machine = formation()
    for _ in range(ATTEMPTS):
        assert round_of(machine, {B: MEMBER}) == JoinCluster(B)
        last = machine.join_failed(B, "the cookies differ")
    assert last == Stop("b@host is in a cluster and cannot be joined: the cookies differ")


class World:
    """Nodes that start for the first time and ask each other, one step of one node at a time."""

    def __init__(self, *names, attempts):
        self.nodes = tuple(NodeAddress(name) for name in names)
        self.machines = {name: Formation(name, attempts, has_lock=False) for name in names}
        self.members = {}
        self.pending = {name: self.machines[name].start() for name in names}
        self.started = set()

    def state_of(self, name, asking):
        if name not in self.started:
            return UNREACHABLE
        if name in self.members:
            return MEMBER
        self.machines[name].asked_by(asking)
        return BLANK

    def step(self, name):
        """Carry out the next action of a node."""
        self.started.add(name)
        machine, action = self.machines[name], self.pending[name]
        match action:
            case Discover():
                self.pending[name] = machine.listed(self.nodes)
            case AskPeers(peers):
                # The answers arrive before the node decides: what happens meanwhile is a step.
                states = {peer.name: self.state_of(peer.name, name) for peer in peers}
                self.pending[name] = lambda: machine.answered(states)
            case JoinCluster(node):
                self.members[name] = self.members[node.name]
            case FormCluster():
                self.members[name] = name
            case Stop():
                raise AssertionError(action.reason)
            case decide:
                self.pending[name] = decide()
                if isinstance(self.pending[name], FormCluster | JoinCluster):
                    self.step(name)

    def run(self, order):
        """Let nodes take their steps, by their names, until all are members of a cluster."""
        for name in order:
            if name not in self.members:
                self.step(name)
        assert set(self.members) == set(self.machines), order
        assert len(set(self.members.values())) == 1, order


def test_nodes_that_all_run_make_one_cluster_in_whatever_order_they_take_their_steps():
    names = ("a@host", "b@host", "c@host")
    for order in itertools.product(names, repeat=6):
        world = World(*names, attempts=ATTEMPTS)
        world.started.update(names)
        world.run((*order, *names * 8))


def test_a_node_that_starts_during_the_last_attempt_of_another_is_in_one_cluster_with_it():
    for order in itertools.product(("a@host", "b@host"), repeat=8):
        World("a@host", "b@host", attempts=2).run((*order, *("b@host", "a@host") * 12))
