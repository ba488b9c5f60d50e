"""Callers that wait for declarations share a sync, and SQLite's log is moved from time to time."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from leveret.storage.metadata import metadata_sync
from leveret.storage.metadata.metadata import SqliteMetadata
from leveret.storage.metadata.metadata_rows import VhostRow
from leveret.storage.metadata.metadata_sync import MetadataSync


class NotedMetadata(SqliteMetadata):
    """checkpoints: how often SQLite's log was moved."""

    checkpoints = 0

    def checkpoint(self) -> None:
        self.checkpoints += 1
        super().checkpoint()


@pytest.fixture
def metadata(tmp_path: Path) -> NotedMetadata:
    return NotedMetadata(tmp_path / "metadata.sqlite")


@pytest.fixture
async def sync(metadata: NotedMetadata) -> AsyncIterator[MetadataSync]:
    made = MetadataSync(metadata, asyncio.get_running_loop())
    yield made
    await made.close()
    metadata.close()


async def synced(sync: MetadataSync) -> None:
    done = asyncio.get_running_loop().create_future()
    sync.when_synced(done.set_result)
    assert await done is None


async def test_sqlites_log_does_not_grow_for_ever(
    metadata: NotedMetadata, sync: MetadataSync, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(metadata_sync, "CHECKPOINT_CHANGES", 10)
    sizes = []
    for number in range(100):
        metadata.put_vhost(VhostRow(str(number)))
        await synced(sync)
        # The thread's jobs follow one another: this sync is after the checkpoint.
        await synced(sync)
        sizes.append((tmp_path / "metadata.sqlite-wal").stat().st_size)
    assert metadata.checkpoints == 10
    assert max(sizes) < 3 * sizes[10]


async def test_a_checkpoint_that_fails_is_reported_and_nothing_else(
    metadata: NotedMetadata,
    sync: MetadataSync,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail() -> None:
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(metadata_sync, "CHECKPOINT_CHANGES", 1)
    monkeypatch.setattr(metadata, "checkpoint", fail)
    metadata.put_vhost(VhostRow("/"))
    await synced(sync)
    await synced(sync)
    assert "failed to move SQLite's log of the metadata into its file: [Errno 5]" in caplog.text


async def test_a_callback_that_fails_is_reported_and_the_others_are_called(
    sync: MetadataSync, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(error: Exception | None) -> None:
        raise ValueError("this one fails")

    done = asyncio.get_running_loop().create_future()
    sync.when_synced(fail)
    sync.when_synced(done.set_result)
    assert await done is None
    await synced(sync)
    assert "ValueError: this one fails" in caplog.text
