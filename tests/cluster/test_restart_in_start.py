"""A node that loses the others while it still starts begins its start again, as a process."""

import json
import signal

from tests.cluster.clustered_nodes import ClusteredNode

QUEUES = 4000
"""Enough that the node is not ready before it has lost the others, on a busy machine either."""


def test_a_node_pauses_while_it_loads_its_definitions(tmp_path):
    definitions, settings = tmp_path / "definitions.json", tmp_path / "leveret.conf"
    definitions.write_text("{}")
    settings.write_text(
        f"cluster_partition_handling = pause_minority\nload_definitions = {definitions}\n"
    )
    a = ClusteredNode(tmp_path, "a", "--config", settings)
    b = ClusteredNode(tmp_path, "b", "--config", settings)
    try:
        b.join(a)
        b.stop()
        queues = [{"vhost": "/", "name": f"queue {number}"} for number in range(QUEUES)]
        definitions.write_text(json.dumps({"queues": queues}))
        b.start(waits=False)
        b.wait_for_log("runs with")
        a.stop(signal.SIGKILL)
        b.wait_for_log("pauses")
        assert " ready in" not in b.log
        definitions.write_text("{}")
        a.start(waits=False)
        b.wait_for_log_again("runs with", seen=1)
        b.wait_for_log(" ready in")
        b.connect().close()
        assert "cannot listen" not in b.log
    finally:
        for node in (a, b):
            node.stop()
