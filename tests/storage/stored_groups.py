"""A node with the entries of Raft groups and nothing else, on any disk, with short log files.

A group's machine here keeps the entries that are not settled. `GroupNode.settle` settles some: no
entry says so, only the next snapshot. What a restart finds is compared with the history of writes.
"""

import asyncio

import msgspec

from leveret.storage.disk.disk import Disk
from leveret.storage.disk.file_reads import FileReads
from leveret.storage.disk.worker import Worker
from leveret.storage.group_log.group_state import SnapshotName
from leveret.storage.group_log.group_store import QUORUM, GroupStore
from leveret.storage.group_log.rounds import TakenSnapshot
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import LogFiles
from leveret.storage.log.recovery import LogReader
from leveret.storage.log.retirement import Retirement

DATA = 0


def runs_of(indexes):
    """Runs of consecutive indexes."""
    runs = []
    for index in sorted(indexes):
        if runs and runs[-1][1] == index - 1:
            runs[-1] = (runs[-1][0], index)
        else:
            runs.append((index, index))
    return runs


class Model:
    """A group as the test has written it. entries: by index, with their terms."""

    def __init__(self, me="a"):
        self.me = me
        self.term, self.vote = 0, ""
        self.entries = {}
        self.applied = 0
        self.settled = set()

    @property
    def last(self):
        return max(self.entries, default=0)

    def view(self):
        return self.me, self.term, self.vote, dict(self.entries)


class GroupNode:
    """One life of a node. history: of all groups' models after each write; synced: how many of them
    were reported as synced. files: is given other lengths of log files by tests.
    """

    def __init__(self, directory, disk=None, file_bytes_max=600, models=None):
        loop = asyncio.get_running_loop()
        self.disk = disk = disk or Disk()
        self.directory = directory
        self._worker, self._pages = Worker(loop, "test-log"), Worker(loop, "test-pages")
        (directory / "log").mkdir(exist_ok=True, parents=True)
        self.files = LogFiles(directory / "log", disk, file_bytes_max)
        self.node_log = Log(self.files, disk, self._worker, loop, lambda: None)
        self.store = GroupStore(
            directory / QUORUM,
            self.node_log,
            self.files,
            disk,
            FileReads(disk),
            self._pages,
            recent_bytes=1_000,
        )
        self.log = self.store.log
        self.retirement = Retirement(self.node_log, self.files, disk, self._worker)
        reader = LogReader(directory / "log", disk, self.node_log.clients)
        reader.read()
        self.problems, self.torn = reader.problems, reader.torn
        self.files.sync(reader.files)
        for path in reader.stale:
            disk.remove(path)
        self.files.begin(reader.files, reader.next_number)
        self.store.begin(self)
        self.models = models if models is not None else self.found_models()
        self.history = [self.views()]
        self.synced = 0

    # What a restart finds

    def live_in_snapshot(self, group):
        state = self.store.rounds.machine_state(group)
        return msgspec.msgpack.decode(state) if state else []

    def found_models(self):
        """The groups that a restart found: every entry is read."""
        models = {}
        for group, state in self.log.groups.items():
            if state.damage:
                continue
            model = models[group] = Model(state.me)
            model.term, model.vote = state.term, state.vote
            live = self.live_in_snapshot(group)
            for index in live:
                model.entries[index] = self.read(group, index)
            for run in state.runs():
                for index in range(run.first, run.first + run.count):
                    model.entries[index] = self.read(group, index)
            model.applied = state.snapshot.index
            state.live = runs_of(live)
            model.settled = set(range(1, model.applied + 1)) - set(live)
        return models

    def read(self, group, index):
        (payload,) = self.log.read(group, index, index, 1)
        return payload

    def check_reading(self):
        """Every entry that is needed can be read, and is what was written."""
        for group, model in self.models.items():
            for index, payload in model.entries.items():
                if index not in model.settled:
                    assert self.read(group, index) == payload

    def views(self):
        return {group: model.view() for group, model in self.models.items()}

    # Writes

    def create(self, group, me="a"):
        self.models[group] = Model(me)
        self.log.create(group, me, b"configuration")
        self._note()

    def remove(self, group):
        del self.models[group]
        self.log.remove(group)
        self._note()

    def term(self, group, vote):
        model = self.models[group]
        model.term += 1
        model.vote = vote
        self.log.save_term(group, model.term, vote)
        self._note()

    def append(self, group, *payloads):
        model = self.models[group]
        first = model.last + 1
        model.entries.update(enumerate(payloads, first))
        self.log.append(group, first, model.term, DATA, list(payloads))
        self._note()

    def truncate(self, group, count):
        """Remove the last entries, but for those that are applied."""
        model = self.models[group]
        first = max(model.applied + 1, model.last + 1 - count)
        if first <= model.last:
            self.log.truncate(group, first)
            model.entries = {one: data for one, data in model.entries.items() if one < first}
            self._note()

    def apply(self, group):
        self.models[group].applied = self.models[group].last

    def settle(self, group, indexes):
        model = self.models[group]
        model.settled |= {one for one in indexes if one <= model.applied}

    def _note(self):
        self.history.append(self.views())
        done = len(self.history) - 1
        self.node_log.after_sync(lambda: self._synced(done))

    def _synced(self, done):
        self.synced = max(self.synced, done)

    # A `SnapshotSource`

    async def take(self, group):
        model = self.models.get(group)
        await asyncio.sleep(0)
        if model is None or not model.applied:
            return None
        live = [one for one in model.entries if one <= model.applied and one not in model.settled]
        return TakenSnapshot(
            SnapshotName(model.applied, model.term), b"configuration",
            msgspec.msgpack.encode(live), runs_of(live), model.applied,
        )  # fmt: skip

    def taken(self, group, snapshot):
        assert self.log.groups[group].snapshot == snapshot.name

    # Life

    async def sync(self):
        """Wait for the log, and retire files that are due."""
        await self.node_log.sync()
        while self.retirement.is_due and await self.retirement.retire_oldest():
            pass

    async def halt(self):
        """The process ends: pending operations are not executed."""
        self.node_log.failure = self.node_log.failure or RuntimeError("the machine is off")
        await asyncio.to_thread(self._worker.stop)
        await asyncio.to_thread(self._pages.stop)
        self.node_log.let_go()
        self.log.reader.close_all()

    async def stop(self):
        """Stop in order."""
        await self.node_log.close()
        self._worker.stop()
        self._pages.stop()
        self.log.reader.close_all()
