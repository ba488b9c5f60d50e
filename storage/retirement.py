"""Retirement: removing log files from the oldest on, once no client of the log needs them.

The newest `FILES_KEPT` files are kept: most messages in them are consumed before the files are old,
and need not be written a second time. An older file is retired in five steps; the node may crash
after any of them:

    1  each client that needs the file moves on: it writes a replacement of the file's records
       elsewhere, or appends it to the log
    2  the log is synced, so the replacements are on disk
    3  an OLDEST record that excludes the file is appended, and the log is synced
    4  the file is taken out of `LogFiles.files`
    5  a worker's thread removes it

Before step 3 is durable a restart reads the file, and the replacements after it. Afterwards the
file is stale, whether it was removed or not.

What is asserted here is LG5 of log.py.
"""

from leveret.storage.disk import Disk
from leveret.storage.log import Log
from leveret.storage.log_client import LogClient
from leveret.storage.log_files import LogFile, LogFiles
from leveret.storage.worker import Worker

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
        """There are more than `FILES_KEPT` files."""
        return len(self._files.files) > FILES_KEPT

    async def retire_oldest(self) -> None:
        """Remove the oldest file. Errors of clients, the log and the disk are raised."""
        file = self._files.files[0]
        for client in self._log.clients:
            if needs(client, file):
                await client.move_on(file)
                assert not needs(client, file), f"LG5: {client.name} has moved on from {file.path}"
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

    async def retire_all(self) -> None:
        """Begin a new file, and remove all others. Errors are raised as by `retire_oldest`.

        The newest last: the space of the others may be needed to begin another one.
        """
        newest = self._files.files[-1]
        while self._files.files[0].number < newest.number:
            await self.retire_oldest()
        newest.is_finished = True
        await self._log.sync()
        while self._files.files[0].number <= newest.number:
            await self.retire_oldest()


def needs(client: LogClient, file: LogFile) -> bool:
    """The client needs this file or an older one."""
    oldest = client.oldest_needed()
    return oldest is not None and oldest <= file.number
