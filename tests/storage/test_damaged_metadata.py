"""A node whose declarations are damaged says so, serves the rest, and throws no messages away."""

import logging
import sqlite3
from pathlib import Path

from broker.config import Config
from broker.server import Broker
from storage.metadata import SqliteMetadata


async def run(directory, work=lambda vhost: None):
    metadata = SqliteMetadata(Path(directory) / "metadata.sqlite")
    broker = Broker(Config(tcp_listeners=()), metadata, data_dir=Path(directory))
    await broker.start()
    work(broker.services.vhosts.get("/"))
    await broker.stop()


async def test_a_damaged_queue_row(tmp_path, caplog):
    def declare(vhost):
        for name in ("lost", "kept"):
            vhost.declare_queue(name, True, False, {})

    await run(tmp_path, declare)
    connection = sqlite3.connect(tmp_path / "metadata.sqlite")
    with connection:
        connection.execute("UPDATE queues SET storage_id = 77 WHERE name = 'lost'")
    connection.close()
    there = []
    with caplog.at_level(logging.ERROR):
        await run(tmp_path, lambda vhost: there.extend(vhost.queues))
    assert there == ["kept"]
    assert "metadata.sqlite" in caplog.text
