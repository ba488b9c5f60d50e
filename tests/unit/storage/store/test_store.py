"""The store as a whole: keys, what a start removes, other clients of the log, congestion."""

import pytest

from leveret.broker.amqp.content_header import read_header
from leveret.storage.disk.disk import StoreError
from leveret.storage.messages.message_run import run_of
from leveret.storage.metadata.metadata import NoMetadata
from leveret.storage.queue.queue_keys import LEVELS, TRANSIENT_IDS
from leveret.storage.store.store import Store
from tests.storage.reading import ready_entries
from tests.unit.storage.fakes import NotesClient, Waiter, persistent


def make_store(directory):
    return Store(directory, NoMetadata(), read_header)


def bodies(queue):
    return [entry.message.body for entry in ready_entries(queue)]


async def test_what_was_published_is_there_after_a_restart(tmp_path):
    store = make_store(tmp_path)
    store.open()
    queue = store.queue(3, 0, "q", True, False)
    store.all_restored()
    waiter = Waiter()
    assert queue.publish(run_of(persistent(b"a", b"b")), 0)
    queue.when_safe(waiter, 1, queue)
    await store.log.sync()
    assert waiter.confirmed == [1]
    await store.close()
    store = make_store(tmp_path)
    store.open()
    assert store.highest_storage_id == 3
    assert store.levels_of(3, 9) == [0]
    assert bodies(store.queue(3, 0, "q", True, False)) == [b"a", b"b"]
    await store.close()


async def test_keys_are_made_of_storage_id_and_level(tmp_path):
    store = make_store(tmp_path)
    store.open()
    assert store.queue(5, 7, "q", True, False).key == 5 * LEVELS + 7
    transient = [store.queue(0, 0, "t", False, False).key for _ in range(2)]
    assert transient == [TRANSIENT_IDS * LEVELS, (TRANSIENT_IDS + 1) * LEVELS]
    with pytest.raises(AssertionError, match="exists already"):
        store.queue(5, 7, "q", True, False)
    await store.close()


async def test_a_queue_that_is_never_opened_is_removed(tmp_path):
    directory = tmp_path / "queues" / "768"
    directory.mkdir(parents=True)
    store = make_store(tmp_path)
    store.open()
    store.all_restored()
    assert not directory.exists()
    await store.close()


async def test_unclaimed_queues_are_kept_if_declarations_were_lost(tmp_path):
    directory = tmp_path / "queues" / "768"
    directory.mkdir(parents=True)
    store = make_store(tmp_path)
    store.open()
    store.all_restored(keeps_unclaimed=True)
    assert directory.exists()
    await store.close()


async def test_segments_of_transient_queues_are_removed_at_a_start(tmp_path):
    (tmp_path / "transient" / "1").mkdir(parents=True)
    store = make_store(tmp_path)
    store.open()
    assert not (tmp_path / "transient").exists()
    await store.close()


async def test_another_client_shares_the_log(tmp_path):
    store = make_store(tmp_path)
    client = NotesClient(store.log)
    store.log.register(client)
    store.open()
    queue = store.queue(1, 0, "q", True, False)
    queue.publish(run_of(persistent(b"a")), 0)
    client.append(b"note")
    await store.close()
    store = make_store(tmp_path)
    client = NotesClient(store.log)
    store.log.register(client)
    store.open()
    assert [note for _, note in client.recovered] == [b"note"]
    assert bodies(store.queue(1, 0, "q", True, False)) == [b"a"]
    await store.close()


async def test_a_start_without_a_client_changes_nothing(tmp_path):
    store = make_store(tmp_path)
    client = NotesClient(store.log)
    store.log.register(client)
    store.open()
    client.append(b"note")
    await store.close()
    (tmp_path / "transient" / "1").mkdir(parents=True)
    before = sorted(tmp_path.rglob("*"))
    store = make_store(tmp_path)
    with pytest.raises(StoreError, match="the feature 'notes'"):
        store.open()
    assert sorted(tmp_path.rglob("*")) == before
    await store.close()
