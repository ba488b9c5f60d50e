"""Retirement: removing log files from the oldest on, once no client of the log needs them.

The newest `FILES_KEPT` files are kept: most messages in them are consumed before the files are old,
and need not be written again. An older file is retired in five steps; the node may crash
after any of them:

    1  each client that needs the file moves on: it writes a replacement of the file's records
       elsewhere, or appends it to the log
    2  the log is synced, so the replacements are on disk
    3  an OLDEST record that excludes the file is appended, and the log is synced
    4  the file is taken out of `LogFiles.files`
    5  a worker's thread removes it

Before step 3 is durable a restart reads the file, and the replacements after it. Afterwards the
file is stale, whether it was removed or not.

The assertions here are of LG5 (log.py).
"""

from leveret.storage.disk.disk import Disk, DiskFull
from leveret.storage.disk.worker import Worker
from leveret.storage.log.log import Log
from leveret.storage.log.log_client import LogClient
from leveret.storage.log.log_files import LogFile, LogFiles

FILES_KEPT = 3
"""Log files that are not retired."""


class Retirement:
    """Retires log files one at a time. worker: removes them."""

    def __init__(self, log: Log, files: LogFiles, disk: Disk, worker: Worker) -> None:
        self._log = log
        self._files = files
        self._disk = disk
        self._worker = worker

    @property
    def is_due(self) -> bool:
        """Whether there are more than `FILES_KEPT` files."""
        return len(self._files.files) > FILES_KEPT

    async def retire_oldest(self) -> bool:
        """Remove the oldest file. Raises errors of clients, the log and the disk.

        Returns False and keeps the file if a full disk has no room for replacements of its
        records: fewer may be needed soon, when messages are consumed.
        """
        file = self._files.files[0]
        try:
            await self._move_on(file)
        except DiskFull:
            return False
        self._disk.passed("log.retiring")
        await self._log.sync()
        self._log.append_oldest(file.number + 1)
        await self._log.sync()
        self._disk.passed("log.retired")
        for client in self._log.clients:
            assert not needs(client, file), f"LG5: {client.name} needs {file.path} again"
        forgotten = self._files.forget_oldest()
        assert forgotten is file, "LG5: files are retired from the oldest on, one at a time"
        await self._worker.run(lambda: self._files.remove(file))
        return True

    async def _move_on(self, file: LogFile) -> None:
        for client in self._log.clients:
            if needs(client, file):
                await client.move_on(file)
                assert not needs(client, file), f"LG5: {client.name} has moved on from {file.path}"

    async def retire_all(self) -> bool:
        """Begin a new file, and remove all other files. Errors and the result are those of
        `retire_oldest`.

        The newest file is last: beginning another one may need the space of the older files.
        """
        newest = self._files.files[-1]
        if not await self._retire_to(newest.number - 1):
            return False
        newest.is_finished = True
        await self._log.sync()
        return await self._retire_to(newest.number)

    async def _retire_to(self, number: int) -> bool:
        while self._files.files[0].number <= number:
            if not await self.retire_oldest():
                return False
        return True


def needs(client: LogClient, file: LogFile) -> bool:
    """Whether the client needs this file or an older one."""
    oldest = client.oldest_needed()
    return oldest is not None and oldest <= file.number
