"""A node with management in the test's own process, whose memory and calls a test can count."""

import asyncio
import base64
import gc
import sys
import tracemalloc
import urllib.error
import urllib.request

import msgspec
import pytest

from leveret.broker.config import Config, ManagementSettings, PrometheusSettings, TcpSettings
from leveret.broker.node.broker import Broker
from leveret.mgmt.api_names import LINES
from leveret.mgmt.management import Management
from leveret.mgmt.running_node import RunningNode
from leveret.storage.metadata.metadata import SqliteMetadata
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_ports

AUTHORIZATION = "Basic " + base64.b64encode(b"guest:guest").decode()


class NodeInProcess:
    """A node in this process.

    ask: sends a request from a thread; a body in bytes is JSON. With `#lines` behind the path a
    list comes as lines of JSON.
    """

    def __init__(self, directory, **settings):
        self.http_port, self.metrics_port = free_ports(2)
        config = Config(
            data_dir=directory,
            tcp=TcpSettings(listeners=()),
            management=ManagementSettings(bind="127.0.0.1", port=self.http_port),
            prometheus=PrometheusSettings(bind="127.0.0.1", port=self.metrics_port),
            collect_statistics_interval_ms=1000,
            **settings,
        )
        metadata = SqliteMetadata(directory / "metadata.sqlite")
        self.node = RunningNode(
            config, lambda: Broker(config, metadata, data_dir=directory), directory
        )
        self._management = Management(self.node)
        self.node.after_start = self._management.broker_started

    async def __aenter__(self):
        self._thresholds = gc.get_threshold()
        await self.node.start_broker()
        await self._management.start()
        gc.collect()
        gc.freeze()
        gc.set_threshold(50_000, 20, 50)
        return self

    async def __aexit__(self, *_exception):
        await self._management.stop()
        await self.node.stop_broker()
        gc.set_threshold(*self._thresholds)

    def ask(self, path, body=None, method=None):
        port = self.metrics_port if path.startswith("metrics") else self.http_port
        path, _, form = path.partition("#")
        where = f"http://127.0.0.1:{port}/{path}"
        data = body if body is None or isinstance(body, bytes) else msgspec.json.encode(body)
        headers = {"Authorization": AUTHORIZATION, "Content-Type": "application/json"}
        headers |= {"Accept": LINES} if form == "lines" else {}
        with urllib.request.urlopen(
            urllib.request.Request(where, data, headers, method=method), timeout=PATIENCE_SECONDS
        ) as got:
            return got.read()

    async def most_memory_of_a_turn(self, path, body):
        """Return the most bytes that one turn of the loop took during a request.

        To take memory, and to fill it, is most of the time that a copy of a large body takes.
        """
        raw = msgspec.json.encode(body)
        answer = asyncio.get_running_loop().run_in_executor(None, self.ask, path, raw)
        most = 0
        tracemalloc.start()
        try:
            while not answer.done():
                before = tracemalloc.get_traced_memory()[0]
                tracemalloc.reset_peak()
                await asyncio.sleep(0)
                most = max(most, tracemalloc.get_traced_memory()[1] - before)
        finally:
            tracemalloc.stop()
        assert await answer is not None
        return most

    async def longest_turn(self, path, body=None, status=200):
        """Return the largest number of calls in one turn of the loop during a request."""
        answer = asyncio.get_running_loop().run_in_executor(None, self.ask, path, body)
        longest = 0
        made = [0]

        def note(_frame, event, _function):
            """Count a call. A profiler is not asked in each turn: most are empty."""
            made[0] += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            while not answer.done():
                made[0] = 0
                await asyncio.sleep(0)
                longest = max(longest, made[0])
        finally:
            sys.setprofile(None)
        if status == 200:
            assert await answer is not None
        else:
            with pytest.raises(urllib.error.HTTPError, match=str(status)):
                await answer
        return longest
