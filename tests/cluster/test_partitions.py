"""Real partitions between nodes in network namespaces, with clients that publish meanwhile."""

import signal
import socket

import pika
import pytest
from pika import exceptions

from tests.cluster.clients import bodies, has_queue, publish, serve_until
from tests.cluster.clustered_nodes import declare
from tests.cluster.hosted_nodes import (
    API_PORT,
    AUTHORIZATION,
    Cluster,
    accepts,
    partitions,
    running,
)
from tests.cluster.namespaces import why_not
from tests.cluster.publisher import ConfirmedPublisher
from tests.patience import PATIENCE_SECONDS

WHY_NOT = why_not()
PAUSE_MINORITY = "cluster_partition_handling = pause_minority"
PATIENT_TICK_S = 5
"""A node that gets no processor for so long is down for the others, and does not come back if
partitions are ignored.
"""

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


def wait_for_more(node, publisher):
    """Wait until a publisher has more messages confirmed."""
    count = len(publisher.confirmed)
    node.wait_until(lambda: len(publisher.confirmed) > count + 5, "more is confirmed")


def assert_nothing_is_lost(node, queue, publisher):
    assert publisher.confirmed
    assert set(publisher.confirmed) <= set(bodies(node, queue))


def wait_until_paused(*nodes):
    for node in nodes:
        node.wait_until(lambda one=node: not accepts(one), "the node accepts no clients")


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """Three nodes with pause_minority, which several tests use."""
    directory = tmp_path_factory.mktemp("minority")
    with Cluster(directory, 3, PAUSE_MINORITY) as made:
        declare(made.nodes[1], "on-b")
        declare(made.nodes[2], "on-c")
        yield made


@pytest.fixture
def minority(shared):
    """Three nodes with pause_minority, which are whole again after each test, also a failed one."""
    yield shared
    shared.network.heal()
    shared.wait_until_whole()


def test_a_minority_pauses_and_comes_back_and_nothing_confirmed_is_lost(minority):
    a, b, c = minority.nodes
    with ConfirmedPublisher(a, "on-b") as with_most, ConfirmedPublisher(c, "on-c") as alone:
        wait_for_more(a, with_most)
        wait_for_more(c, alone)
        held = c.connect()
        held.channel().queue_declare("its-own", exclusive=True)
        minority.cut([a, b], [c])
        wait_until_paused(c)
        wait_for_more(a, with_most)
        declare(a, "declared-meanwhile")
        minority.network.heal()
        minority.wait_until_whole()
        wait_for_more(c, alone)
    with pytest.raises(exceptions.AMQPError):
        held.process_data_events(PATIENCE_SECONDS)
    assert not has_queue(a, "its-own")
    assert "node c@" in c.log
    assert "pauses" in c.log
    assert "Traceback" not in c.log
    assert has_queue(c, "declared-meanwhile")
    assert_nothing_is_lost(c, "on-b", with_most)
    assert_nothing_is_lost(a, "on-c", alone)


def test_a_node_whose_packets_are_lost_in_one_direction_pauses(minority):
    a, b, c = minority.nodes
    minority.network.cut_one_way([c.host], [a.host, b.host])
    wait_until_paused(c)
    declare(b, "declared-without-c")
    minority.network.heal()
    minority.wait_until_whole()
    assert has_queue(c, "declared-without-c")


def test_slow_and_lossy_links_change_nothing_but_the_time(tmp_path):
    # The longer a link may be silent, the less likely it is that all its ticks are lost.
    with Cluster(tmp_path, 3, PAUSE_MINORITY, tick_s=10) as cluster:
        a, b, c = cluster.nodes
        cluster.network.delay([a.host], [b.host, c.host], 0.1)
        cluster.network.lose([b.host], [c.host], 0.2)
        declare(c, "over-slow-links")
        assert has_queue(b, "over-slow-links")
        cluster.network.heal()
        assert all(cluster.sees_all(node) for node in cluster.nodes)


def test_a_suspended_node_learns_what_it_missed_before_it_answers(minority):
    a, _, c = minority.nodes
    with c.connect() as connection:
        channel, answers = connection.channel(), []
        c.process.send_signal(signal.SIGSTOP)
        try:
            a.wait_until(lambda: c.name not in running(a), "the others go on")
            declare(a, "declared-while-suspended")
            # It is in the socket of the suspended node before that goes on.
            channel._impl.queue_declare(
                "declared-while-suspended", passive=True, callback=answers.append
            )
            connection.process_data_events(0)
            request = sent_to_api(c, "queues/%2F/declared-while-suspended")
        finally:
            c.process.send_signal(signal.SIGCONT)
        serve_until(connection, lambda: answers or not channel.is_open, "the queue is known")
        assert answers
        # 503: its broker has stopped, to start again with what the others have.
        assert status_of(request) in (200, 503)


def sent_to_api(node, path):
    """Send a request to the API, which the node need not have read; return the socket."""
    request = socket.create_connection((node.host.address, API_PORT), PATIENCE_SECONDS)
    headers = {"Host": node.host.address, "Connection": "close", **AUTHORIZATION}
    lines = [f"GET /api/{path} HTTP/1.1", *(f"{key}: {value}" for key, value in headers.items())]
    request.sendall("\r\n".join([*lines, "", ""]).encode())
    return request


def status_of(request):
    """The status of the answer."""
    with request, request.makefile("rb") as answer:
        return int(answer.readline().split()[1])


def test_of_five_nodes_two_pause_and_with_three_sides_all(tmp_path):
    with Cluster(tmp_path, 5, PAUSE_MINORITY) as cluster:
        a, b, c, d, e = cluster.nodes
        declare(a, "on-a")
        with ConfirmedPublisher(b, "on-a") as publisher:
            cluster.cut([a, b, c], [d, e])
            wait_until_paused(d, e)
            wait_for_more(b, publisher)
            cluster.cut([a, b], [c])
            wait_until_paused(a, b, c)
            cluster.network.heal()
            # Three of five are enough, whichever nodes ran last.
            cluster.cut([a, d, e], [b, c])
            for node in (a, d, e):
                node.wait_until(lambda one=node: accepts(one), "the node accepts clients")
            cluster.network.heal()
            cluster.wait_until_whole()
            wait_for_more(b, publisher)
        assert_nothing_is_lost(e, "on-a", publisher)


def test_nodes_pause_that_reach_none_of_the_listed_ones(tmp_path):
    handling = "cluster_partition_handling = pause_if_all_down"
    listed = "cluster_partition_handling.pause_if_all_down.nodes.1 = {a}"
    with Cluster(tmp_path, 3, handling, listed) as cluster:
        a, b, c = cluster.nodes
        declare(a, "on-a")
        with ConfirmedPublisher(a, "on-a") as publisher:
            cluster.cut([a], [b, c])
            wait_until_paused(b, c)
            wait_for_more(a, publisher)
            cluster.network.heal()
            cluster.wait_until_whole()
        assert_nothing_is_lost(c, "on-a", publisher)


def wait_until_partitioned(side, other):
    for one, names in ((side[0], other), (other[0], side)):
        wanted = sorted(node.name for node in names)
        one.wait_until(lambda a=one, b=wanted: partitions(a) == b, f"partitioned from {wanted}")


def files_of(node):
    """The names of the files with what a node has discarded, as its log has them."""
    return sorted(path.name for path in (node.data_dir / "discarded").glob("*.discarded"))


def test_with_ignore_both_sides_go_on_until_the_operator_restarts_one(tmp_path):
    with Cluster(tmp_path, 3, tick_s=PATIENT_TICK_S) as cluster:
        a, b, c = cluster.nodes
        cluster.cut([a, b], [c])
        c.wait_until(lambda: running(c) == [c.name], "c runs alone")
        declare(c, "of-c")
        publish(c, "of-c", b"1", b"2")
        declare(a, "of-a")
        publish(a, "of-a", b"3")
        cluster.network.heal()
        wait_until_partitioned([a, b], [c])
        status = a.ctl_json("cluster_status")
        assert status["partitions"][a.name] == [c.name]
        c.stop()
        c.start()
        cluster.wait_until_whole()
        assert has_queue(c, "of-a")
        assert not has_queue(c, "of-c")
        assert partitions(a) == partitions(c) == []
        (file,) = files_of(c)
        assert file in c.log
        assert "of-c" in c.ctl("list_discarded", file)
        c.ctl("publish_discarded", file, "--declare")
        assert bodies(b, "of-c") == [b"1", b"2"]
        assert bodies(c, "of-a") == [b"3"]


def test_with_autoheal_the_side_with_fewer_clients_gives_way_by_itself(tmp_path):
    with Cluster(tmp_path, 3, "cluster_partition_handling = autoheal") as cluster:
        a, b, c = cluster.nodes
        declare(b, "on-b")
        clients = [a.connect() for _ in range(3)]
        with ConfirmedPublisher(a, "on-b") as publisher:
            cluster.cut([a, b], [c])
            c.wait_until(lambda: running(c) == [c.name], "c runs alone")
            with c.connect() as connection:
                channel = connection.channel()
                channel.queue_declare("of-c", durable=True)
                channel.queue_declare("passing")
            publish(c, "of-c", b"1", b"2")
            publish(c, "passing", b"3", properties=pika.BasicProperties())
            wait_for_more(a, publisher)
            declare(a, "of-a")
            cluster.network.heal()
            c.wait_for_log("gives way to")
            cluster.wait_until_whole()
            wait_for_more(a, publisher)
        assert all(client.is_open for client in clients)
        for client in clients:
            client.close()
        assert has_queue(c, "of-a")
        assert not has_queue(c, "of-c")
        assert partitions(a) == partitions(c) == []
        for file in files_of(c):
            assert file in c.log
            c.ctl("publish_discarded", file, "--declare")
        assert bodies(a, "of-c") == [b"1", b"2"]
        assert bodies(a, "passing") == [b"3"]
        assert_nothing_is_lost(c, "on-b", publisher)


@pytest.mark.parametrize("handling", ["ignore", "autoheal"])
def test_the_losing_sides_messages_of_a_mirrored_queue_are_in_its_file(tmp_path, handling):
    setting = f"cluster_partition_handling = {handling}"
    with Cluster(tmp_path, 3, setting, tick_s=PATIENT_TICK_S) as cluster:
        a, b, c = cluster.nodes
        a.ctl("set_policy", "ha", "^mirrored$", '{"ha-mode": "all", "ha-sync-mode": "automatic"}')
        declare(a, "mirrored")
        for node in (b, c):
            a.wait_for_log(f"the mirror on node {node.name} is synchronised")
        publish(a, "mirrored", b"both")
        clients = [a.connect() for _ in range(3)]
        cluster.cut([a, b], [c])
        c.wait_until(lambda: running(c) == [c.name], "c runs alone")
        c.wait_for_log("promoting the mirror on node")
        publish(c, "mirrored", b"of c")
        publish(b, "mirrored", b"of a and b")
        cluster.network.heal()
        if handling == "ignore":
            wait_until_partitioned([a, b], [c])
            c.stop()
            c.start()
        else:
            c.wait_for_log("gives way to")
        cluster.wait_until_whole()
        for client in clients:
            client.close()
        a.wait_for_log_again(f"the mirror on node {c.name} is synchronised", seen=1)
        assert bodies(c, "mirrored") == [b"both", b"of a and b"]
        (file,) = files_of(c)
        c.ctl("publish_discarded", file)
        assert b"of c" in bodies(a, "mirrored")
