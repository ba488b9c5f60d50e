"""`make cluster`, with its ports, on a host of its own."""

import json
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.cluster.namespaces import Network, why_not
from tests.forked_programs import run_program
from tests.patience import PATIENCE_SECONDS

WHY_NOT = why_not()
pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=WHY_NOT)


class LocalCluster:
    """The program, in a directory."""

    def __init__(self, host, directory):
        self.host, self.directory = host, directory
        self._path = directory / "output"
        with self._path.open("w") as output:
            self.process = self.start(f"{sys.executable} -m leveret.mgmt.cli.local_cluster", output)

    def start(self, line, output):
        """Run a line of a shell on the host."""
        return subprocess.Popen(
            [*self.host.prefix, "sh", "-c", f"exec {line}"], cwd=self.directory,
            stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip

    @property
    def output(self):
        return self._path.read_text()

    def wait_until(self, condition):
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not condition():
            assert time.monotonic() < deadline, self.output
            time.sleep(0.02)

    def wait_for(self, text, count=1):
        self.wait_until(lambda: self.output.count(text) >= count)

    def ask(self, node, command):
        """Run leveretctl, and return the JSON that it prints."""
        directory = self.directory / "cluster-data" / node
        words = ["--data-dir", directory, "-q", command, "--formatter", "json"]
        done = run_program("leveretctl", *words)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture
def cluster(tmp_path):
    with Network(1) as network:
        cluster = LocalCluster(network.hosts[0], tmp_path)
        try:
            cluster.wait_for(" ready in", 3)
            yield cluster
        finally:
            cluster.process.send_signal(signal.SIGTERM)
            cluster.process.wait(PATIENCE_SECONDS)


def running(cluster, node):
    names = cluster.ask(node, "cluster_status")["running_nodes"]
    return sorted(name.partition("@")[0] for name in names)


def kill(cluster, node):
    pid = cluster.ask(node, "status")["pid"]
    subprocess.run(["kill", "-9", str(pid)], check=True)


def test_a_node_can_be_killed_and_started_again_and_all_stop_together(cluster):
    assert running(cluster, "one") == ["one", "three", "two"]
    kill(cluster, "two")
    cluster.wait_for("two   was killed by signal 9; to start it again: ")
    cluster.wait_for("link to node two@127.0.0.1 is down", 2)
    cluster.wait_until(lambda: running(cluster, "one") == ["one", "three"])
    (command,) = re.findall(r"to start it again: LEVERET_COOKIE=(\S+ \S+) (.*)", cluster.output)
    with (cluster.directory / "of-two").open("w") as output:
        again = cluster.start(f"env LEVERET_COOKIE={command[0]} {command[1]}", output)
    try:
        cluster.wait_until(lambda: running(cluster, "one") == ["one", "three", "two"])
    finally:
        again.terminate()
        again.wait(PATIENCE_SECONDS)
    cluster.process.send_signal(signal.SIGINT)
    assert cluster.process.wait(PATIENCE_SECONDS) == 0
    assert cluster.output.count("has ended with the exit code 0") == 2


def test_all_stop_if_one_cannot_start(tmp_path):
    with Network(1) as network:
        (tmp_path / "cluster-data").mkdir()
        # Where the data of a node should be is a file.
        (tmp_path / "cluster-data" / "two").write_text("")
        cluster = LocalCluster(network.hosts[0], tmp_path)
        assert cluster.process.wait(PATIENCE_SECONDS) == 1
        assert "two   has ended with the exit code" in cluster.output
