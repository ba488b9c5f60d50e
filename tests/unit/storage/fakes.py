"""Fakes for tests of the store's modules: they prove the order of operations without threads.

`RecordingDisk` notes each operation; `ManualWorker` runs a job when the test says so; `NotesClient`
is a client of the log with records of one kind; `LogUnderTest` puts a log together from these.
"""

import asyncio
from pathlib import Path

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.storage.bodies.planned_writes import write_planned
from leveret.storage.disk.disk import Disk
from leveret.storage.disk.unsynced_files import UnsyncedFiles
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import LogFiles
from leveret.storage.messages.formats import encode_record, named_head
from leveret.storage.messages.message import Address, Message

NOTE = 100
PERSISTENT_HEADER = read_header(encode_properties({"delivery_mode": 2}))
ADDRESS = Address("x", "key", b"\1x\3key")


def persistent(*bodies):
    """A run of persistent messages."""
    return [Message(ADDRESS, PERSISTENT_HEADER, body) for body in bodies]


def write_out(disk, writes):
    """Carry out planned writes, without a sync."""
    files = UnsyncedFiles(Path("/"), disk)
    try:
        write_planned(files, writes)
    finally:
        files.close()


class RecordingDisk(Disk):
    """done: what was done to which file, in order. error: raised by the next operation named."""

    def __init__(self):
        super().__init__()
        self.done = []
        self.errors = {}

    def _do(self, what, path):
        if what in self.errors:
            raise self.errors.pop(what)
        self.done.append((what, path.name))

    def create(self, path):
        self._do("create", path)
        return super().create(path)

    def write(self, descriptor, path, data, offset):
        self._do("write", path)
        super().write(descriptor, path, data, offset)

    def sync(self, descriptor, path):
        self._do("sync", path)

    def sync_directory(self, directory):
        self._do("sync", directory)

    def sync_file_system(self, descriptor, root):
        self._do("sync", root)

    def rename(self, path, other):
        self._do("rename", path)
        super().rename(path, other)

    def remove(self, path):
        self._do("remove", path)
        super().remove(path)

    def remove_tree(self, directory):
        self._do("remove", directory)
        super().remove_tree(directory)


class ManualWorker:
    """Jobs wait until `work` runs them; `run` runs everything at once."""

    def __init__(self):
        self.jobs = []

    def submit(self, job, done):
        self.jobs.append((job, done))

    def work(self):
        """Run the jobs that wait now; how many they were."""
        jobs, self.jobs = self.jobs, []
        for job, done in jobs:
            try:
                result, problem = job(), None
            except Exception as error:
                result, problem = None, error
            done(result, problem)
        return len(jobs)

    async def run(self, job):
        return job()

    def stop(self):
        self.work()


class NotesClient:
    """A client whose records are notes: needed from the file on that `needs_from` says."""

    def __init__(self, log, name="notes", kind=NOTE):
        self.name = name
        self.kinds = frozenset({kind})
        self.removing_kinds = frozenset()
        self._kind = kind
        self._log = log
        self._pending = []
        self.needs_from = None
        self.moves = []
        self.recovered = []
        self.offsets = []

    def append(self, note, body_bytes=0):
        self._pending.append(note)
        self._log.write_later(body_bytes)

    def take_records(self, file, offset):
        pending, self._pending = self._pending, []
        if pending:
            self.offsets.append((file.number, offset))
        return [encode_record(self._kind, named_head(self.name, note)) for note in pending]

    def recover(self, file, data, record):
        note = record.head[1 + len(self.name) :]
        self.recovered.append((file.number, note))
        return "has a bad note" if note == b"bad" else None

    def oldest_needed(self):
        return self.needs_from

    async def move_on(self, file):
        await asyncio.sleep(0)
        self.moves.append(file.number)
        self.append(b"moved")
        self.needs_from = file.number + 1


class Waiter:
    """Notes what is confirmed to it."""

    def __init__(self):
        self.confirmed = []

    def confirm(self, first, holder):
        self.confirmed.append(first)


class PatchableLog(Log):
    """A log of which a test may replace a method."""


class LogUnderTest:
    """A log with a manual worker. Batches start when `turn` is called, and end with `work`."""

    def __init__(self, directory, file_bytes_max=1000):
        self.directory = directory
        self.disk = RecordingDisk()
        self.worker = ManualWorker()
        self.metadata_syncs = 0
        self.files = LogFiles(directory, self.disk, file_bytes_max)
        loop = asyncio.get_running_loop()
        self.log = PatchableLog(self.files, self.disk, self.worker, loop, self._sync_metadata)
        self.client = NotesClient(self.log)
        self.log.register(self.client)
        self.files.begin([], 1)
        self.disk.done.clear()

    def _sync_metadata(self):
        self.disk.done.append(("sync", "metadata"))

    async def write(self):
        """Have everything that was appended on disk."""
        task = asyncio.ensure_future(self.log.sync())
        while not task.done():
            await asyncio.sleep(0)
            self.worker.work()
        await task
