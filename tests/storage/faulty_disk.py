"""A disk on which one kind of system call fails from a chosen call on, and with a power switch."""

import errno
import os

from leveret.storage.disk.disk import failure
from tests.storage.power_cut_disk import PowerCutDisk

OPERATIONS = ("open", "read", "write", "sync", "truncate", "unlink", "punch", "link")
ONCE, FOR_A_WHILE, FOR_GOOD = 1, 25, 1 << 60
"""How many calls fail, one after the other."""


class FaultyDisk(PowerCutDisk):
    """operation: that fails, at the call with the number `first` and the `count - 1` after it.

    calls: how many there were of each operation. number: the error.
    """

    def __init__(self, random, operation="", first=0, count=0, number=errno.EIO):
        super().__init__(random)
        self.calls = dict.fromkeys(OPERATIONS, 0)
        self.operation = operation
        self.failing = range(first, first + count)
        self.number = number

    def fails(self, operation):
        call, self.calls[operation] = self.calls[operation], self.calls[operation] + 1
        return operation == self.operation and call in self.failing and not self.is_off

    def try_to(self, operation, path):
        if self.fails(operation):
            raise failure(operation, path, OSError(self.number, os.strerror(self.number)))

    def _open(self, path, flags):
        self.try_to("open", path)
        return super()._open(path, flags)

    def read(self, path, offset, size):
        self.try_to("read", path)
        return super().read(path, offset, size)

    def read_from(self, descriptor, path, offset, size):
        self.try_to("read", path)
        return super().read_from(descriptor, path, offset, size)

    def read_all(self, path):
        self.try_to("read", path)
        return super().read_all(path)

    def write(self, descriptor, path, data, offset):
        if self.fails("write"):
            super().write(descriptor, path, data[: len(data) // 2], offset)
            raise failure("write", path, OSError(self.number, os.strerror(self.number)), offset)
        super().write(descriptor, path, data, offset)

    def sync(self, descriptor, path):
        self.try_to("sync", path)
        super().sync(descriptor, path)

    def sync_directory(self, directory):
        self.try_to("sync", directory)
        super().sync_directory(directory)

    def sync_file_system(self, descriptor, root):
        self.try_to("sync", root)
        super().sync_file_system(descriptor, root)

    def truncate(self, path, size):
        self.try_to("truncate", path)
        super().truncate(path, size)

    def remove(self, path):
        self.try_to("unlink", path)
        super().remove(path)

    def link(self, path, other):
        self.try_to("link", path)
        return super().link(path, other)

    def punch(self, descriptor, start, end):
        return not self.fails("punch") and super().punch(descriptor, start, end)
