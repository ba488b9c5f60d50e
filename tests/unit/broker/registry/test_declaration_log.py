"""The declaration log of a node that is alone: checked, written, applied."""

from contextlib import closing

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.declarations.values import (
    DeleteBinding,
    DeleteExchange,
    DeleteQueue,
    DeleteVhost,
    PutBinding,
    PutExchange,
    PutQueue,
    PutUser,
    PutVhost,
    User,
)
from leveret.broker.runtime.pending import Answer
from leveret.storage.metadata.metadata import MetadataError, MetadataFull, SqliteMetadata
from tests.declaring import Declared, state_of


@pytest.fixture
def metadata(tmp_path):
    with closing(SqliteMetadata(tmp_path / "metadata.sqlite")) as metadata:
        metadata.load()
        yield metadata


@pytest.fixture
def declared(metadata):
    made = Declared(metadata)
    made.put(PutVhost("/"))
    return made


def exchange_names(metadata):
    return {row.name for row in metadata.load().exchanges}


class TestWriting:
    @pytest.fixture
    def full(self, declared, metadata, monkeypatch):
        """A disk to which nothing can be written."""

        def fail(*_):
            raise MetadataError("the disk is full")

        monkeypatch.setattr(metadata, "_execute", fail)
        return declared

    @pytest.mark.parametrize(
        "declarations",
        [
            [PutUser(User("anna", (), b"", "sha"))],
            [PutQueue("/", "q", durable=True)],
            [PutQueue("/", "passing"), PutQueue("/", "q", durable=True)],
        ],
    )
    def test_what_cannot_be_written_changes_nothing(self, full, declarations):
        before = state_of(full.registry)
        answer = full.log.submit(*declarations)
        with pytest.raises(MetadataError, match="the disk is full"):
            answer.result()
        assert state_of(full.registry) == before

    @pytest.fixture
    def full_until_checkpoint(self, declared, metadata, monkeypatch):
        """A disk on which nothing can be written before a checkpoint; it has an exchange."""
        declared.put(PutExchange("/", "e", "direct", durable=True))
        is_full = [True]
        execute = metadata._execute

        def try_to(*arguments):
            if is_full[0]:
                raise MetadataFull("the disk is full")
            execute(*arguments)

        monkeypatch.setattr(metadata, "_execute", try_to)
        monkeypatch.setattr(
            metadata, "checkpoint", lambda: is_full.clear() or is_full.append(False)
        )
        return declared

    def test_a_deletion_is_written_to_a_full_disk_after_a_checkpoint(
        self, full_until_checkpoint, metadata
    ):
        full_until_checkpoint.log.submit(DeleteExchange("/", "e")).result()
        assert "e" not in exchange_names(metadata)

    def test_a_checkpoint_on_a_full_disk_is_waited_for_in_its_place(
        self, full_until_checkpoint, metadata
    ):
        declared, answer = full_until_checkpoint, Answer()
        declared.writer.checkpoint = lambda: answer
        deleted = declared.log.submit(DeleteExchange("/", "e"))
        again = declared.log.submit(PutExchange("/", "e", "fanout"))
        assert not deleted.is_given
        assert not again.is_given
        assert "e" in exchange_names(metadata)
        metadata.checkpoint()
        answer.give(None)
        for actor in declared.turns.woken:
            actor.take_turn()
        deleted.result()
        again.result()
        assert "e" not in exchange_names(metadata)
        assert declared.vhost().exchanges["e"].type_name == "fanout"

    def test_nothing_new_is_written_to_a_full_disk(self, full_until_checkpoint, metadata):
        log, writer = full_until_checkpoint.log, full_until_checkpoint.writer
        writer.disk_filled = lambda: setattr(writer, "is_disk_full", True)
        for name in ("first", "second"):
            with pytest.raises(MetadataFull):
                log.submit(PutExchange("/", name, "direct", durable=True)).result()
        log.submit(PutExchange("/", "passing", "direct")).result()
        writer.is_disk_full = False
        log.submit(PutExchange("/", "third", "direct", durable=True)).result()
        assert {"first", "second", "third"} & exchange_names(metadata) == {"third"}

    def test_transient_objects_need_no_disk(self, full):
        full.put(PutQueue("/", "q"), PutExchange("/", "e", "direct"))
        full.put(PutBinding("/", "e", "q", "k"))
        full.put(DeleteQueue("/", "q"))

    def test_all_or_nothing(self, declared, metadata, monkeypatch):
        put_queue = metadata.put_queue

        def fail_on_second(row):
            if row.name == "second":
                raise MetadataError("no")
            put_queue(row)

        monkeypatch.setattr(metadata, "put_queue", fail_on_second)
        names = ("first", "second")
        answer = declared.log.submit(*(PutQueue("/", name, durable=True) for name in names))
        with pytest.raises(MetadataError):
            answer.result()
        assert not metadata.load().queues
        assert not declared.registry.vhosts["/"].queues

    def test_a_queue_that_is_there_keeps_its_storage_id(self, declared, metadata):
        put = PutQueue("/", "q", durable=True)
        declared.put(put, put)
        declared.put(put)
        (row,) = metadata.load().queues
        assert row.storage_id == declared.registry.vhosts["/"].queues["q"].storage_id == 1


class TestConsequences:
    """An auto-delete exchange goes with its last binding, in the same transaction."""

    @pytest.fixture
    def chain(self, declared):
        """Exchanges a -> b -> the queue q, and a -> the queue r."""
        declared.put(
            PutExchange("/", "a", "fanout", durable=True, auto_delete=True),
            PutExchange("/", "b", "fanout", durable=True, auto_delete=True),
            PutQueue("/", "q", durable=True), PutQueue("/", "r", durable=True),
        )  # fmt: skip
        declared.put(
            PutBinding("/", "a", "b", "", "exchange"), PutBinding("/", "b", "q", ""),
            PutBinding("/", "a", "r", ""),
        )  # fmt: skip
        return declared

    @pytest.mark.parametrize(
        ("removals", "left"),
        [
            ([DeleteQueue("/", "q")], {"a"}),
            ([DeleteQueue("/", "r")], {"a", "b"}),
            ([DeleteQueue("/", "q"), DeleteQueue("/", "r")], set()),
            ([DeleteExchange("/", "b")], {"a"}),
            ([DeleteBinding("/", "b", "q", "")], {"a"}),
            ([DeleteBinding("/", "b", "q", ""), DeleteQueue("/", "r")], set()),
            ([DeleteBinding("/", "b", "q", "other")], {"a", "b"}),
        ],
    )
    def test_what_goes_along(self, chain, metadata, removals, left):
        chain.put(*removals)
        there = {name for name in chain.registry.vhosts["/"].exchanges if name in ("a", "b")}
        assert there == left == exchange_names(metadata)

    def test_a_failure_leaves_all_of_them(self, chain, metadata, monkeypatch):
        before = state_of(chain.registry)

        def fail(*_):
            raise MetadataError("no")

        monkeypatch.setattr(metadata, "delete_queue", fail)
        with pytest.raises(MetadataError):
            chain.log.submit(DeleteQueue("/", "q")).result()
        assert state_of(chain.registry) == before
        assert exchange_names(metadata) == {"a", "b"}


class TestDeletingVeryMuch:
    """SQLite deletes 300 rows at once; the turns for the others are given by the test."""

    @pytest.fixture
    def bound(self, declared):
        put = declared.put
        put(PutExchange("/", "x", "direct", durable=True), PutQueue("/", "q", durable=True))
        put(*(PutBinding("/", "x", "q", f"{number}") for number in range(1000)))
        declared.turns.work_left = 0
        return declared

    @pytest.mark.parametrize(
        "deletion", [DeleteQueue("/", "q"), DeleteExchange("/", "x"), DeleteVhost("/")]
    )
    def test_rows_are_deleted_in_steps_and_in_one_transaction(self, bound, metadata, deletion):
        queue = bound.registry.vhosts["/"].queues["q"]
        answer = bound.log.submit(deletion)
        assert not answer.is_given
        assert not queue.is_deleted, "DC1"
        bound.log.close()
        assert len(metadata.load().bindings) == 1000
        assert [row.name for row in metadata.load().queues] == ["q"]

    def test_a_step_deletes_some_rows(self, bound, metadata):
        deleted = []
        delete_part = metadata.delete_part
        metadata.delete_part = lambda *of: deleted.append(delete_part(*of)) or deleted[-1]
        bound.turns.work_left = 1_000_000
        bound.put(DeleteQueue("/", "q"))
        assert deleted == [300, 300, 300, 100, 0]
        assert not metadata.load().bindings

    def test_declarations_submitted_meanwhile_wait(self, bound):
        deleted = bound.log.submit(DeleteQueue("/", "q"))
        put = bound.log.submit(PutQueue("/", "q", durable=True))
        impossible = bound.log.submit(PutBinding("/", "missing", "q", ""))
        applied = bound.log.submit()
        assert not any(answer.is_given for answer in (put, impossible, applied))
        bound.turns.work_left = 1_000_000
        bound.turns.woken.pop().take_turn()
        for answer in (deleted, put, applied):
            answer.result()
        with pytest.raises(ChannelFault):
            impossible.result()
        assert not bound.registry.vhosts["/"].queues["q"].bindings
