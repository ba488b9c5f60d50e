"""A log client like a replicated log: it appends, truncates a suffix, and compacts a prefix.

`ReplicatedNode` is a log with this client only, on any disk, with short log files. It records the
state after each operation, and which operations were reported as synced.
"""

import asyncio

from leveret.storage.disk.worker import Worker
from leveret.storage.log.log import Log
from leveret.storage.log.log_files import LogFiles
from leveret.storage.log.log_sequences import LogSequences
from leveret.storage.log.recovery import LogReader
from leveret.storage.log.retirement import Retirement, needs

KIND = 200


class ReplicatedLog:
    """Values in sequences. Compacted values are kept in a file for each sequence."""

    def __init__(self, log, files, disk, directory):
        self._disk = disk
        self._directory = directory
        self._compacted = {}
        self._values = {}
        self.sequences = LogSequences(log, files, "replicated", KIND, self)
        directory.mkdir(parents=True, exist_ok=True)

    def begin(self):
        """Load what a restart found."""
        for name in self._disk.names_in(self._directory):
            path = self._directory / name
            through, *values = self._disk.read_all(path).decode().split(",")
            self._compacted[int(path.stem)] = (int(through), values)
        for entry in self.sequences.take_recovered():
            through, _ = self._compacted.get(entry.sequence, (0, []))
            if entry.number <= through:
                self.sequences.discard(entry.sequence, entry.number)
            else:
                self._values.setdefault(entry.sequence, {})[entry.number] = entry.data.decode()

    def state(self):
        """Return the values of each sequence."""
        compacted = {key: tuple(values) for key, (_, values) in self._compacted.items()}
        return {
            key: compacted.get(key, ()) + tuple(self._values.get(key, {}).values())
            for key in sorted(
                compacted.keys() | {key for key, found in self._values.items() if found}
            )
        }

    def append(self, sequence, value):
        number = self.sequences.append(sequence, value.encode())
        self._values.setdefault(sequence, {})[number] = value

    def truncate(self, sequence, count):
        """Remove the last values, except for compacted ones."""
        values = self._values.get(sequence, {})
        doomed = sorted(values)[max(0, len(values) - count) :]
        if doomed:
            self.sequences.truncate(sequence, doomed[0])
            for number in doomed:
                del values[number]

    def check_reading(self):
        """Check that every value can be read back, from memory or from the log."""
        for sequence, values in self._values.items():
            assert self.sequences.numbers(sequence) == sorted(values)
            for number, value in values.items():
                assert self.sequences.read(sequence, number) == value.encode()

    async def compact(self, sequence, through):
        """Write the values to the sequence's file; see `Compactor`."""
        await asyncio.sleep(0)
        values = self._values[sequence]
        done = [number for number in values if number <= through]
        kept = self._compacted.get(sequence, (0, []))[1] + [values.pop(number) for number in done]
        path = self._directory / f"{sequence}.new"
        descriptor = self._disk.create(path)
        self._disk.write(descriptor, path, ",".join([str(through), *kept]).encode(), 0)
        self._disk.sync(descriptor, path)
        self._disk.close(descriptor)
        self._disk.rename(path, self._directory / f"{sequence}")
        self._disk.sync_directory(self._directory)
        self._compacted[sequence] = (through, kept)
        self.sequences.discard(sequence, through)


class ReplicatedNode:
    """A log with one replicated log. history: the state after each operation since the start.

    synced: number of these operations that were reported as synced.
    """

    def __init__(self, directory, disk, file_bytes_max=400):
        loop = asyncio.get_running_loop()
        self.disk = disk
        self._worker = Worker(loop, "test-log")
        (directory / "log").mkdir(exist_ok=True)
        self.files = LogFiles(directory / "log", disk, file_bytes_max)
        self.log = Log(self.files, disk, self._worker, loop, lambda: None)
        self.replicated = ReplicatedLog(self.log, self.files, disk, directory / "compacted")
        self.log.register(self.replicated.sequences)
        self.files.remove = self._checking_need(self.files.remove)
        self.retirement = Retirement(self.log, self.files, disk, self._worker)
        reader = LogReader(directory / "log", disk, self.log.clients)
        reader.read()
        self.problems = reader.problems
        for path in reader.stale:
            disk.remove(path)
        self.files.begin(reader.files, reader.next_number)
        self.replicated.begin()
        self.history = [self.replicated.state()]
        self.synced = 0

    def append(self, sequence, value):
        self.replicated.append(sequence, value)
        self._note()

    def truncate(self, sequence, count):
        self.replicated.truncate(sequence, count)
        self._note()

    def _note(self):
        self.history.append(self.replicated.state())
        done = len(self.history) - 1
        self.log.after_sync(lambda: self._synced(done))

    def _synced(self, done):
        self.synced = max(self.synced, done)

    def _checking_need(self, remove):
        def check_and_remove(file):
            assert not any(needs(client, file) for client in self.log.clients)
            remove(file)

        return check_and_remove

    async def sync(self):
        """Wait for the log, and retire files that are due."""
        await self.log.sync()
        while self.retirement.is_due:
            await self.retirement.retire_oldest()

    async def halt(self):
        """Simulate the end of the process: pending operations are not executed."""
        self.log.failure = self.log.failure or RuntimeError("the machine is off")
        await asyncio.to_thread(self._worker.stop)
        self.log.let_go()

    async def stop(self):
        """Stop in order."""
        await self.log.close()
        self._worker.stop()
