"""Leaders of mirrored queues that hand over: policies, maintenance, nodes that are stopped."""

import signal

import pytest

from tests.cluster.mirrored import (
    consumed,
    declared,
    log_of,
    publish,
    wait_until_mirrored,
    wait_until_synchronised,
)


def wait_until_it_leads(node):
    node.wait_for_log(f"{log_of()} promoting the mirror on node {node.name} to leader")


@pytest.mark.parametrize("number", [signal.SIGTERM, None], ids=["SIGTERM", "stop_app"])
def test_a_node_that_is_stopped_hands_over_first(mirroring, number):
    a, b, c = mirroring
    through_b = declared(b)
    publisher = declared(a, "mirrored-later")
    wait_until_synchronised(b, a, c)
    publish(through_b, b"1", b"2", b"3")
    taken = a.connect().channel()
    assert taken.basic_get("mirrored")[2] == b"1"
    taken.basic_ack(1)
    if number is None:
        b.ctl("stop_app")
    else:
        b.stop(number)
    publish(publisher, b"4")
    assert consumed(c, 3) == [(b"2", False), (b"3", False), (b"4", False)]
    wait_until_it_leads(a)


def test_the_last_node_to_stop_leads_when_all_come_back(mirroring):
    a, b, c = mirroring
    channel = declared(a)
    wait_until_synchronised(a, b, c)
    publish(channel, *[b"%d" % number for number in range(10)])
    for node in (a, b, c):
        node.stop()
    for node in mirroring:
        node.start(waits=False)
    for node in mirroring:
        node.wait_for_log(" ready in")
    publish(declared(a), b"10")
    assert [body for body, _ in consumed(b, 11)] == [b"%d" % number for number in range(11)]


def test_a_policy_moves_the_leader_while_programs_go_on(mirroring):
    a, b, c = mirroring
    publisher, through_b = declared(a), declared(b)
    wait_until_synchronised(a, b, c)
    publish(publisher, *[b"%d" % number for number in range(50)])
    a.ctl("set_policy", "ha", "^mirrored", f'{{"ha-mode": "nodes", "ha-params": ["{c.name}"]}}')
    for number in range(50, 100):
        publish(publisher if number % 2 else through_b, b"%d" % number)
    wait_until_it_leads(c)
    c.wait_for_log(f"{log_of()} the mirror on node {a.name} is gone")
    publish(publisher, b"100")
    a.stop(signal.SIGKILL)
    b.stop(signal.SIGKILL)
    assert sorted(int(body) for body, _ in consumed(c, 101)) == list(range(101))


def test_a_node_under_maintenance_leads_nothing(mirroring):
    a, b, c = mirroring
    publisher = declared(a)
    wait_until_synchronised(a, b, c)
    publish(publisher, b"1")
    a.ctl("drain")
    b.wait_until(lambda: "promoting the mirror on node" in b.log, "a mirror leads")
    assert consumed(c, 1) == [(b"1", False)]


class TestUnsynchronised:
    """The leader is stopped while the only mirror lacks its messages."""

    @staticmethod
    def mirrored_late(nodes, **more):
        a, b, c = nodes
        words = "".join(f', "{key}": "{value}"' for key, value in more.items())
        channel = declared(a, "late")
        publish(channel, b"1", b"2", queue="late")
        a.ctl("set_policy", "late", "^late$", f'{{"ha-mode": "all"{words}}}')
        wait_until_mirrored(a, b, c, queue="late")
        publish(channel, b"3", queue="late")

    def test_the_queue_is_down_until_its_leader_returns(self, mirroring):
        a, b, _ = mirroring
        self.mirrored_late(mirroring)
        a.stop()
        b.wait_for_log("waits for node")
        a.start()
        assert [body for body, _ in consumed(b, 3, "late")] == [b"1", b"2", b"3"]

    def test_a_mirror_leads_that_lacks_messages_if_the_policy_says_so(self, mirroring):
        a, _, c = mirroring
        self.mirrored_late(mirroring, **{"ha-promote-on-shutdown": "always"})
        a.stop()
        assert [body for body, _ in consumed(c, 1, "late")] == [b"3"]
