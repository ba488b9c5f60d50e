"""Every kind of system call of the store fails: once, for a while and from then on, at every place.

After each run the power is cut, and a restart on a disk that works is compared with the account:
whatever was confirmed and not settled is there, whether the store went on or stopped. Which places
are tried is sampled by a fixed seed; LEVERET_STORE_FAULTS=all tries them all, which takes minutes.
(The store renames no file while a node runs.)
"""

import asyncio
import errno
import os
import random

import pytest

from leveret.storage.contract.backing_queue import Unreadable
from leveret.storage.disk.disk import StoreError
from leveret.storage.log import log
from leveret.storage.queue import pager
from leveret.storage.segments import ledger, segments
from leveret.storage.store import store as store_module
from tests.patience import PATIENCE_SECONDS
from tests.storage.faulty_disk import FOR_A_WHILE, FOR_GOOD, ONCE, OPERATIONS, FaultyDisk
from tests.storage.machine import Machine
from tests.storage.power_cut_disk import PowerCutDisk

IS_EXHAUSTIVE = os.environ.get("LEVERET_STORE_FAULTS") == "all"
PLACES = 3
STEPS = 250


@pytest.fixture(autouse=True)
def _small_and_quick(monkeypatch):
    for module in (ledger, segments):
        monkeypatch.setattr(module, "SEGMENT_POSITIONS", 64)
    for module in (log, pager):
        monkeypatch.setattr(module, "RETRY_SECONDS", 0.002)
    monkeypatch.setattr(store_module, "CHECK_SECONDS", 0.002)


class PatientMachine(Machine):
    """A machine whose clients come back when a message cannot be read.

    was_stopped: in order, if the disk allowed it, and not started since.
    """

    was_stopped = False
    store = None

    def start(self, is_damaged=False):
        super().start(is_damaged)
        self.was_stopped = False

    async def halt(self):
        # The first start may have failed before there was a store.
        if self.store is not None:
            await super().halt()

    async def stop(self):
        self.was_stopped = True
        await super().stop()

    def _step(self):
        try:
            super()._step()
        except Unreadable:
            return


async def run(directory, disk):
    """Work, with a stop and a restart in the middle. What fails, ends it."""
    directory.mkdir()
    machine = PatientMachine(directory, 1, disk)
    try:
        machine.start()
        await machine.work(STEPS)
        if machine.store.log.failure is None:
            await asyncio.wait_for(machine.stop(), PATIENCE_SECONDS)
            machine.start()
            await machine.work(STEPS)
    except StoreError:
        # The node would end here, with the error.
        pass
    return machine


async def places_of(directory, operation):
    """How many calls of an operation a run has."""
    disk = FaultyDisk(random.Random(1))
    machine = await run(directory, disk)
    disk.is_off = True
    await machine.halt()
    return max(1, disk.calls[operation])


async def check_account(directory, operation, place, count, number):
    disk = FaultyDisk(random.Random(place), operation, place, count, number)
    machine = await run(directory, disk)
    disk.is_off = True
    await machine.halt()
    disk.cut()
    machine.disk = PowerCutDisk(random.Random(place))
    was_stopped = machine.was_stopped
    machine.start()
    problems = machine.check(was_stopped=was_stopped)
    assert problems == [], f"{operation} failed {count} times from call {place} on"
    await machine.store.close()


@pytest.mark.parametrize("count", [ONCE, FOR_A_WHILE, FOR_GOOD])
@pytest.mark.parametrize("operation", OPERATIONS)
async def test_whatever_fails_no_confirmed_message_is_lost(tmp_path, operation, count):
    places = await places_of(tmp_path / "healthy", operation)
    chosen = range(places)
    if not IS_EXHAUSTIVE:
        chosen = sorted(random.Random(operation).sample(chosen, min(PLACES, places)))
    for place in chosen:
        number = errno.EMFILE if operation == "open" and place % 2 else errno.EIO
        await check_account(tmp_path / str(place), operation, place, count, number)
