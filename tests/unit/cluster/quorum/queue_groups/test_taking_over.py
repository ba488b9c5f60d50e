"""The first start with groups takes over what versions without groups stored, and after crashes."""

from contextlib import suppress

import pytest

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import read_header, read_stored
from leveret.broker.amqp.field_table import encode_table
from leveret.broker.amqp.properties import encode_properties
from leveret.broker.config import Config
from leveret.broker.declarations.values import PutQueue
from leveret.broker.registry.stored import declarations
from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.queue_groups.older_messages import DEATH, LETTERS_LEVEL, RETURNS
from leveret.cluster.quorum.queue_groups.taking_over import TakingOver
from leveret.cluster.replicated_queues.membership_record import decode_record
from leveret.storage.messages.message import Address, Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.metadata.metadata import SqliteMetadata
from leveret.storage.metadata.metadata_rows import QueueRow
from leveret.storage.store.store import Store
from tests.patience import until
from tests.stored_broker import StoredBroker

STORAGE_ID = 7
QUORUM = {"x-queue-type": ("S", "quorum")}
KEEPS_LETTERS = {
    **QUORUM, "x-dead-letter-exchange": ("S", "missing"), "x-overflow": ("S", "reject-publish"),
    "x-dead-letter-strategy": ("S", "at-least-once"),
}  # fmt: skip


def message(body, **headers):
    header = read_header(encode_properties({"delivery_mode": 2, "headers": headers or None}))
    return Message(Address("", "q", encode_address("", "q")), header, body)


def returned(body, count, is_first):
    return message(body, **{RETURNS: ("A", [("l", count), ("t", is_first)])})


async def stored(directory, arguments, *levels, expires_at_ms=0):
    """Store a quorum queue as versions without groups did, on a node that has run before."""
    async with StoredBroker(directory):
        pass
    metadata = SqliteMetadata(directory / "metadata.sqlite")
    metadata.load()
    metadata.put_queue(QueueRow("/", "q", True, False, STORAGE_ID, encode_table(arguments)))
    store = Store(directory, metadata, read_stored)
    store.open()
    for level, messages in enumerate(levels):
        part = store.queue(STORAGE_ID, level, "q", True, False, knows_deliveries=True)
        for one in messages:
            part.publish(run_of([one]), expires_at_ms)
    store.all_restored()
    await store.log.sync()
    await store.close()
    metadata.close()


async def found(directory, **parts):
    """The bodies of all messages, in order, and how often they were returned; a restart later."""
    async with StoredBroker(directory, **parts) as node:
        queue = node.broker.services.vhosts["/"].queues["q"]
        await until(lambda: queue.own_counts() is not None)
        taken = []
        for _ in range(queue.own_counts().ready):
            got = Answer()
            queue.get(True, got)
            await until(lambda got=got: got.is_given)
            (entry,) = [got.result().entry]
            count = dict(entry.message.header.headers)["x-delivery-count"][1]
            taken.append((entry.message.body, count))
        return taken, queue.own_counts().dlx


async def test_messages_come_in_order_with_their_counts(tmp_path):
    ready = [message(b"1"), message(b"2"), returned(b"3", 2, False)]
    await stored(tmp_path, QUORUM, ready, [returned(b"0", 1, True)])
    async with StoredBroker(tmp_path):
        pass
    messages, _ = await found(tmp_path)
    assert messages == [(b"0", 1), (b"1", 0), (b"2", 0), (b"3", 2)]


async def test_dead_letters_that_were_kept_are_kept(tmp_path):
    letter = message(b"dead", **{DEATH: ("S", "rejected")})
    levels = [[message(b"1")], [], [letter]]
    assert len(levels) == LETTERS_LEVEL + 1
    await stored(tmp_path, KEEPS_LETTERS, *levels)
    assert await found(tmp_path) == ([(b"1", 0)], 1)


async def test_a_node_whose_host_is_renamed_afterwards_keeps_the_messages(tmp_path):
    await stored(tmp_path, QUORUM, [message(b"1"), message(b"2")])
    async with StoredBroker(tmp_path):
        pass
    messages, _ = await found(tmp_path, config=Config(node_name="leveret@another-host"))
    assert messages == [(b"1", 0), (b"2", 0)]


async def test_a_renamed_node_knows_its_queues_also_when_it_is_in_a_cluster_later(tmp_path):
    await stored(tmp_path, QUORUM, [message(b"1")])
    async with StoredBroker(tmp_path):
        pass
    name = "leveret@another-host"
    async with StoredBroker(tmp_path, config=Config(node_name=name)):
        pass
    metadata = SqliteMetadata(tmp_path / "metadata.sqlite")
    declared = [it for it in declarations(metadata.load()) if isinstance(it, PutQueue)]
    metadata.close()
    assert [(it.node, decode_record(it.record).nodes) for it in declared] == [(name, (name,))]


async def test_a_message_that_has_expired_becomes_a_dead_letter(tmp_path):
    await stored(tmp_path, KEEPS_LETTERS, [message(b"1")], expires_at_ms=1)
    async with StoredBroker(tmp_path, virtual_clock=True) as node:
        queue = node.broker.services.vhosts["/"].queues["q"]
        await until(lambda: queue.own_counts() is not None)
        node.advance(0.001)
        await until(lambda: queue.own_counts().dlx == 1)


@pytest.mark.parametrize("crashes", [False, True], ids=["", "and is cut off at its end"])
async def test_a_message_that_expires_while_it_is_taken_over_becomes_a_dead_letter(
    tmp_path, monkeypatch, crashes
):
    """It takes a quarter of an hour."""
    await stored(tmp_path, KEEPS_LETTERS, [message(b"1"), message(b"2")], expires_at_ms=1)
    with monkeypatch.context() as patched:
        node = StoredBroker(tmp_path, virtual_clock=True)
        delete, read = TakingOver._delete, TakingOver._read

        async def read_slowly(*parts):
            await read(*parts)
            node._clock.advance(450)

        async def delete_slowly(*parts):
            node._clock.advance(450)
            if crashes:
                raise Crash
            await delete(*parts)

        patched.setattr(TakingOver, "_read", read_slowly)
        patched.setattr(TakingOver, "_delete", delete_slowly)
        with suppress(Crash):
            async with node:
                await until_letters(node, 2)
    node = StoredBroker(tmp_path, virtual_clock=True)
    async with node:
        await until_letters(node, 2)


async def until_letters(node, count):
    queue = node.broker.services.vhosts["/"].queues["q"]
    await until(lambda: queue.own_counts() is not None)
    node.advance(0.001)
    await until(lambda: queue.own_counts().dlx == count)


async def test_a_crash_before_the_rows_are_changed_begins_again(tmp_path, monkeypatch):
    await stored(tmp_path, QUORUM, [message(b"1"), message(b"2")])
    with monkeypatch.context() as patched:
        patched.setattr(TakingOver, "_write", _crash)
        with pytest.raises(Crash):
            await found(tmp_path)
    messages, _ = await found(tmp_path)
    assert messages == [(b"1", 0), (b"2", 0)]


class Crash(Exception):
    """The node ends here."""


def _crash(*_):
    raise Crash


async def test_a_crash_before_the_old_messages_are_deleted_doubles_none(tmp_path, monkeypatch):
    await stored(tmp_path, QUORUM, [message(b"1"), message(b"2")])
    with monkeypatch.context() as patched:
        patched.setattr(TakingOver, "_delete", _crash)
        with pytest.raises(Crash):
            await found(tmp_path)
    messages, _ = await found(tmp_path)
    assert messages == [(b"1", 0), (b"2", 0)]
