"""Reads of messages that wait for the disk."""

import asyncio

import pytest

from leveret.cluster.quorum.conversion.copied_messages import when_readable
from leveret.cluster.rpc.refused import Refused
from leveret.storage.contract.backing_queue import BeingRead, Unreadable


class Disk:
    """A thread reads: what it has read is there only while it calls back."""

    def __init__(self, *outcomes):
        self._outcomes = list(outcomes)
        self._is_read = False
        self.reads = 0

    def read(self):
        self.reads += 1
        if not self._is_read:
            raise BeingRead("a file", self._when_done)
        outcome = self._outcomes.pop(0)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _when_done(self, callback):
        asyncio.get_running_loop().call_soon(self._done, callback)

    def _done(self, callback):
        self._is_read = True
        callback()
        self._is_read = False


def test_what_a_thread_has_read_is_taken_at_once():
    disk = Disk(b"data")
    assert asyncio.run(when_readable(disk.read)) == b"data"
    assert disk.reads == 2


def test_a_read_that_fails_is_a_reason():
    with pytest.raises(Refused, match="it is damaged"):
        asyncio.run(when_readable(Disk(Unreadable("it is damaged")).read))
    with pytest.raises(KeyError):
        asyncio.run(when_readable(Disk(KeyError(5)).read))
