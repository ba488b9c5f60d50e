"""`stop_app`, and the end of the process, while a node waits for other nodes in its start."""

import signal
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.cluster.clustered_nodes import ClusteredNode


@pytest.fixture
def pair(tmp_path):
    """Starts nodes a and b, with the same options, as a cluster."""
    nodes = []

    def start(*options):
        nodes.extend(ClusteredNode(tmp_path, name, *options) for name in "ab")
        nodes[1].join(nodes[0])
        return nodes

    yield start
    for node in nodes:
        node.stop()


def wait_for_the_other(b, a):
    """Have node b wait for node a, which stopped last."""
    b.stop()
    a.stop()
    b.start(waits=False)
    b.wait_for_log("Waiting for nodes")


def running_nodes(node):
    return node.ctl("cluster_status").partition("Running Nodes")[2].partition("Versions")[0]


def test_a_node_that_waits_is_stopped_and_takes_all_commands(pair):
    a, b = pair()
    wait_for_the_other(b, a)
    b.ctl("stop_app")
    assert "the broker was stopped while it was starting" in b.log
    b.wait_for_log("the broker is stopped: 'leveretctl start_app' starts it")
    a.start()
    assert b.name not in running_nodes(a)
    b.ctl("update_cluster_nodes", a.address)
    b.ctl("change_cluster_node_type", "ram")
    b.ctl("start_app")
    assert b.name in running_nodes(a)
    b.connect().close()
    b.ctl("stop_app")
    b.ctl("reset")
    b.ctl("start_app")
    assert b.name not in a.ctl("cluster_status")
    b.connect().close()


def test_a_node_whose_others_are_lost_is_forced_to_start_without_a_new_process(pair):
    a, b = pair()
    wait_for_the_other(b, a)
    b.ctl("stop_app")
    b.ctl("force_boot")
    b.ctl("start_app")
    b.connect().close()
    b.ctl("stop_app")
    b.ctl("force_reset")
    b.ctl("start_app")
    assert a.name not in b.ctl("cluster_status")


def test_start_app_that_waits_ends_with_stop_app_and_with_the_process(pair):
    a, b = pair()
    wait_for_the_other(b, a)
    b.ctl("stop_app")
    for end in (lambda: b.ctl("stop_app"), b.stop):
        seen = b.log.count("Waiting for nodes")
        with ThreadPoolExecutor() as threads:
            command = threads.submit(b.ctl, "start_app", succeeds=False)
            b.wait_for_log_again("Waiting for nodes", seen)
            end()
            assert "the broker was stopped while it was starting" in command.result()
    assert b.process.returncode == 0
    assert b.log.rstrip().endswith("stopped")


def test_a_paused_node_stays_stopped_until_it_is_started(pair, tmp_path):
    settings = tmp_path / "leveret.conf"
    settings.write_text("cluster_partition_handling = pause_minority\n")
    a, b = pair("--config", settings)
    a.stop(signal.SIGKILL)
    b.wait_for_log("pauses")
    b.wait_for_log("Waiting for nodes")
    b.ctl("stop_app")
    a.start(waits=False)
    a.wait_for_log("Waiting for nodes")
    b.ctl("start_app")
    a.wait_for_log(" ready in")
    seen = b.log.count("pauses")
    a.stop(signal.SIGKILL)
    b.wait_for_log_again("pauses", seen)
    b.stop()
    assert b.process.returncode == 0
    assert b.log.rstrip().endswith("stopped")
    assert "Traceback" not in b.log
