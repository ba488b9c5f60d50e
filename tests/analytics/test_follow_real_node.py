"""A node writes its log while a follow is killed again and again: the tables are as a batch's."""

import os
import signal
import subprocess
import sys
import threading

from leveret.analytics.job.follow_quickly import Following
from leveret.analytics.job.job import JobOptions
from leveret.analytics.tables.versions import CURRENT
from tests.analytics.real_traffic import run_once
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import everything

FOLLOW = """
import sys
from leveret.analytics.job.follow_quickly import follow_quickly
from leveret.analytics.job.job import JobOptions
follow_quickly(JobOptions(sys.argv[1], sys.argv[2]), 0.1, keep_days=7)
"""


class KilledFollow(threading.Thread):
    """Runs a follow, and kills it each time that it has published tables. kills: how often."""

    def __init__(self, trace, out):
        super().__init__()
        self._trace, self._out = trace, out
        self._is_over = threading.Event()
        self.kills = 0

    def stop(self):
        self._is_over.set()
        self.join()

    def run(self):
        while not self._is_over.is_set():
            before = self._published()
            command = [sys.executable, "-c", FOLLOW, str(self._trace), str(self._out)]
            with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
                while self._published() == before and not self._is_over.wait(0.02):
                    assert process.poll() is None
                process.send_signal(signal.SIGKILL)
            self.kills += 1

    def _published(self):
        try:
            return os.readlink(self._out / CURRENT)
        except FileNotFoundError:
            return None


def test_a_follow_that_is_killed_while_a_node_writes(tmp_path):
    trace, out = tmp_path / "node" / "data" / "trace", tmp_path / "out"
    trace.mkdir(parents=True)
    follow = KilledFollow(trace, out)
    follow.start()
    try:
        run = run_once(tmp_path / "node")
    finally:
        follow.stop()
    assert run.trace == trace
    assert follow.kills
    Following(JobOptions(str(trace), str(out))).update()
    assert (out / "report.html").exists()
    analyze_quickly(trace, tmp_path / "batch")
    at_once, followed = everything(tmp_path / "batch"), everything(out)
    for name, rows in at_once.items():
        assert followed[name] == rows, name
