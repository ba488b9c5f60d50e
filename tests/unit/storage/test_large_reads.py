"""Large bodies are read by a thread; who asked for one asks again when it was read."""

import pytest

from leveret.storage.backing_queue import BeingRead
from leveret.storage.disk import StoreError
from leveret.storage.large_reads import LargeReads
from leveret.storage.message import StoredBody
from tests.unit.storage.fakes import ManualWorker

STORED = StoredBody(1, 40, 4, 0)


class Rig:
    """Reads of one body. found: what those got who asked again."""

    def __init__(self):
        self.worker = ManualWorker()
        self.reads = LargeReads(self.worker)
        self.jobs = 0
        self.error = None
        self.found = []

    def job(self):
        self.jobs += 1
        if self.error is not None:
            raise self.error
        return b"body"

    def ask(self):
        return self.reads.read(STORED, self.job, "FILE")

    def ask_again(self):
        self.found.append(self.ask())


@pytest.fixture
def rig():
    return Rig()


def test_it_is_read_once_for_all_who_wait(rig):
    for _ in range(2):
        with pytest.raises(BeingRead, match="FILE is being read") as raised:
            rig.ask()
        raised.value.when_done(rig.ask_again)
    rig.worker.work()
    assert (rig.found, rig.jobs) == ([b"body", b"body"], 1)


def test_it_is_not_kept_for_those_who_ask_later(rig):
    with pytest.raises(BeingRead):
        rig.ask()
    rig.worker.work()
    with pytest.raises(BeingRead):
        rig.ask()
    rig.worker.work()
    assert rig.jobs == 2


def test_a_read_that_fails_fails_for_those_who_wait(rig):
    rig.error = StoreError("cannot read FILE")
    with pytest.raises(BeingRead) as raised:
        rig.ask()

    def ask_again():
        with pytest.raises(StoreError, match="cannot read FILE"):
            rig.ask()
        rig.found.append("failed")

    raised.value.when_done(ask_again)
    rig.worker.work()
    assert rig.found == ["failed"]
    with pytest.raises(BeingRead):
        rig.ask()
