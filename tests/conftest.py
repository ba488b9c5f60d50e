"""Fixtures and settings of all tests.

No example of hypothesis has a time limit, and pika waits for a node as long as tests do: its 15 s
for a handshake are not enough on a busy machine, nor are a node's 10 s for it, and its 15 s for a
method. Nodes that tests start have no links to others unless they say so: they run side by side,
and their ports would be taken.
"""

import gc
import os
import signal
import sys

import pytest
from hypothesis import settings
from pika.connection import Parameters

from leveret.storage.segments import ledger, segments
from tests.patience import OPERATION_MS, PATIENCE_SECONDS

os.environ.setdefault("LEVERET_CLUSTER_PORT", "0")
os.environ.setdefault("LEVERET_CHANNEL_OPERATION_TIMEOUT", str(OPERATION_MS))
os.environ.setdefault("LEVERET_HANDSHAKE_TIMEOUT", str(1000 * PATIENCE_SECONDS))

settings.register_profile("leveret", deadline=None)
settings.load_profile("leveret")

STREAM_REQUEST_SECONDS = 30
"""rstream waits as long for an answer that a lost node does not give, before it tries another."""

Parameters.DEFAULT_SOCKET_TIMEOUT = PATIENCE_SECONDS
Parameters.DEFAULT_STACK_TIMEOUT = PATIENCE_SECONDS


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Importing tests makes a million objects and no garbage: no collection looks at them."""
    gc.disable()
    try:
        return (yield)
    finally:
        if streams := sys.modules.get("rstream.constants"):
            streams.DEFAULT_REQUEST_TIMEOUT = STREAM_REQUEST_SECONDS
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport():
    """Names that are not UTF-8 are in some log lines, and workers send only text that is."""
    report = yield
    report.sections = [
        (title, text.encode("utf-8", "backslashreplace").decode())
        for title, text in report.sections
    ]
    return report


@pytest.fixture
def interrupts():
    """SIGINT interrupts what the test starts, also where the tests run in the background of a
    shell, which has them ignore it.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def embedded(async_amqp_broker):
    """A broker in the loop of the test."""
    return async_amqp_broker


def begin_segments_after(messages, monkeypatch):
    for module in (ledger, segments):
        monkeypatch.setattr(module, "SEGMENT_POSITIONS", messages)


@pytest.fixture
def small_segments(monkeypatch):
    """Queues on disk begin a new segment after 64 messages."""
    begin_segments_after(64, monkeypatch)


@pytest.fixture
def tiny_segments(monkeypatch):
    """Queues on disk begin a new segment after 8 messages."""
    begin_segments_after(8, monkeypatch)
