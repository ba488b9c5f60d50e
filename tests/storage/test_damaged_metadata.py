"""A node whose declarations are damaged says so, serves the rest, and throws no messages away."""

import logging
import sqlite3
from pathlib import Path

import pytest

from broker.config import Config
from broker.server import Broker
from storage.check_metadata import check_metadata, repair_metadata
from storage.disk import StoreError
from storage.metadata import SqliteMetadata


async def run(directory, work=lambda vhost: None):
    metadata = SqliteMetadata(Path(directory) / "metadata.sqlite")
    broker = Broker(Config(tcp_listeners=()), metadata, data_dir=Path(directory))
    await broker.start()
    work(broker.services.vhosts.get("/"))
    await broker.stop()


async def damaged(directory):
    """A data directory with one damaged declaration of two."""

    def declare(vhost):
        for name in ("lost", "kept"):
            vhost.declare_queue(name, True, False, {})

    await run(directory, declare)
    connection = sqlite3.connect(directory / "metadata.sqlite")
    with connection:
        connection.execute("UPDATE queues SET storage_id = 77 WHERE name = 'lost'")
    connection.close()


async def test_a_damaged_queue_row(tmp_path, caplog):
    await damaged(tmp_path)
    there = []
    with caplog.at_level(logging.ERROR):
        await run(tmp_path, lambda vhost: there.extend(vhost.queues))
    assert there == ["kept"]
    assert "metadata.sqlite" in caplog.text


async def test_a_repair_keeps_what_is_whole(tmp_path, caplog):
    await damaged(tmp_path)
    assert check_metadata(tmp_path)
    assert repair_metadata(tmp_path)
    assert check_metadata(tmp_path) == []
    assert (tmp_path / "damaged" / "metadata.sqlite").exists()
    there = []
    with caplog.at_level(logging.ERROR):
        await run(tmp_path, lambda vhost: there.extend(vhost.queues))
    assert there == ["kept"]
    assert not caplog.text
    assert not repair_metadata(tmp_path)


async def test_what_cannot_be_read_at_all_is_not_replaced(tmp_path):
    await damaged(tmp_path)
    (tmp_path / "metadata.sqlite").write_bytes(b"no database" * 1000)
    assert check_metadata(tmp_path)
    with pytest.raises(StoreError, match="cannot be repaired"):
        repair_metadata(tmp_path)
