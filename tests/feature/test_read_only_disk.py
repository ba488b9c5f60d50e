"""A file system that becomes read-only while the node runs: clients are told, and so is the log."""

import asyncio
import errno
import gc
import os
import time
from pathlib import Path

import aiormq
import pytest

from leveret.broker.config import (
    Config,
    Listener,
    ManagementSettings,
    PrometheusSettings,
    TcpSettings,
)
from leveret.mgmt.cli import serve
from leveret.storage.disk.disk import Disk, StoreError, failure
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

PERSISTENT = aiormq.spec.Basic.Properties(delivery_mode=2)
READ_ONLY = OSError(errno.EROFS, os.strerror(errno.EROFS))


class ReadOnlyDisk(Disk):
    """A disk that is read-only once `is_read_only` is set."""

    is_read_only = False

    def write(self, descriptor, path, data, offset):
        if self.is_read_only:
            raise failure("write", path, READ_ONLY, offset)
        super().write(descriptor, path, data, offset)


class NoLogOutputs:
    """The loggers stay as pytest has set them up."""

    recent = None

    def reopen(self):
        """Nothing is open."""

    async def attach(self, broker):
        """Nothing is published."""


@pytest.fixture
def _collector():
    thresholds = gc.get_threshold()
    yield
    # A node that stops looks at all objects again, those that pytest has imported among them.
    gc.freeze()
    gc.set_threshold(*thresholds)


@pytest.mark.usefixtures("_collector")
async def test_clients_get_320_and_the_last_words_are_the_cause(tmp_path, monkeypatch):
    port = free_port()
    config = Config(
        data_dir=tmp_path,
        tcp=TcpSettings(listeners=(Listener("127.0.0.1", port),)),
        management=ManagementSettings(port=0),
        prometheus=PrometheusSettings(port=0),
    )
    monkeypatch.setattr(serve, "Disk", ReadOnlyDisk)
    unlink = Path.unlink

    def refuse(path, missing_ok=False):
        if ReadOnlyDisk.is_read_only:
            raise READ_ONLY
        unlink(path, missing_ok)

    monkeypatch.setattr(Path, "unlink", refuse)
    running = asyncio.create_task(serve._run(config, time.perf_counter(), NoLogOutputs()))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while (connection := await connected(port)) is None:
            assert not running.done(), running.exception()
        channel = await connection.channel()
        await channel.queue_declare("q", durable=True)
        monkeypatch.setattr(ReadOnlyDisk, "is_read_only", True)
        with pytest.raises(aiormq.exceptions.AMQPError, match="CONNECTION_FORCED"):
            await channel.basic_publish(b"lost", routing_key="q", properties=PERSISTENT)
        with pytest.raises(StoreError, match=r"cannot write .*\.log.*: Read-only file system"):
            await running


async def connected(port):
    try:
        return await aiormq.connect(f"amqp://guest:guest@127.0.0.1:{port}/")
    except OSError:
        await asyncio.sleep(0.01)
        return None
