"""What the leader of a quorum queue says of the nodes that use it."""

from leveret.cluster.quorum.machine.commands import NodeConnected, NodeDisconnected, NodeDown
from leveret.cluster.quorum.machine.senders import Sender
from leveret.cluster.quorum.queue_groups.node_states import KnownRuns, node_commands

RUNS = KnownRuns(linked={"a@h": 5, "b@h": 7}, running={"a@h": 5, "b@h": 6, "c@h": 3})


def sender(node, incarnation, is_away=False):
    made = Sender(1, node, incarnation)
    made.is_away = is_away
    return made


def test_nothing_is_said_of_nodes_that_are_linked():
    assert node_commands([sender("a@h", 5), sender("b@h", 7)], RUNS) == []


def test_an_earlier_run_of_a_linked_node_has_ended():
    assert node_commands([sender("b@h", 6)], RUNS) == [NodeDown("b@h", 6)]


def test_a_node_that_the_cluster_has_given_up_has_ended():
    assert node_commands([sender("d@h", 1)], RUNS) == [NodeDown("d@h", 1)]


def test_a_running_node_without_a_link_is_cut_off():
    assert node_commands([sender("c@h", 3), sender("c@h", 3)], RUNS) == [NodeDisconnected("c@h")]
    assert node_commands([sender("c@h", 3, is_away=True)], RUNS) == []


def test_a_node_whose_link_has_just_come_up_is_connected_whatever_is_applied():
    assert node_commands([sender("a@h", 5, is_away=True)], RUNS) == [NodeConnected("a@h")]
    assert node_commands([sender("a@h", 5)], RUNS, changed="a@h") == [NodeConnected("a@h")]


def test_a_sender_that_has_ended_is_left_alone():
    ended = sender("d@h", 1)
    ended.has_ended = True
    assert node_commands([ended], RUNS) == []
