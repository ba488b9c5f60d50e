"""A node with damaged declarations reports them, serves the others, and keeps all messages."""

import logging
import sqlite3
from pathlib import Path

import pytest

from leveret.broker.config import Config, TcpSettings
from leveret.broker.declarations.values import PutQueue
from leveret.broker.node.broker import Broker
from leveret.broker.runtime.pending_in_task import in_task
from leveret.storage.check.check_metadata import check_metadata, repair_metadata
from leveret.storage.disk.disk import StoreError
from leveret.storage.metadata.metadata import SqliteMetadata


async def run(directory, *declarations):
    """Start a broker, declare something, and stop; the names of its queues."""
    metadata = SqliteMetadata(Path(directory) / "metadata.sqlite")
    broker = Broker(Config(tcp=TcpSettings(listeners=())), metadata, data_dir=Path(directory))
    await broker.start()
    await in_task(broker.services.declarations.submit(*declarations))
    queues = list(broker.services.vhosts["/"].queues)
    await broker.stop()
    return queues


async def damaged(directory):
    """A data directory in which one of two declarations is damaged."""
    await run(directory, *(PutQueue("/", name, durable=True) for name in ("lost", "kept")))
    connection = sqlite3.connect(directory / "metadata.sqlite")
    with connection:
        connection.execute("UPDATE queues SET storage_id = 77 WHERE name = 'lost'")
    connection.close()


async def test_a_damaged_queue_row(tmp_path, caplog):
    await damaged(tmp_path)
    with caplog.at_level(logging.ERROR):
        assert await run(tmp_path) == ["kept"]
    assert "metadata.sqlite" in caplog.text


async def test_a_repair_keeps_undamaged_rows(tmp_path, caplog):
    await damaged(tmp_path)
    assert check_metadata(tmp_path).damaged
    assert repair_metadata(tmp_path)
    assert check_metadata(tmp_path).damaged == []
    assert (tmp_path / "damaged" / "metadata.sqlite").exists()
    with caplog.at_level(logging.ERROR):
        assert await run(tmp_path) == ["kept"]
    assert not caplog.text
    assert not repair_metadata(tmp_path)


async def test_what_cannot_be_read_at_all_is_not_replaced(tmp_path):
    await damaged(tmp_path)
    (tmp_path / "metadata.sqlite").write_bytes(b"no database" * 1000)
    assert check_metadata(tmp_path).damaged
    with pytest.raises(StoreError, match="cannot be repaired"):
        repair_metadata(tmp_path)
