"""A disk that accepts every write to some files, and fails to write them back later.

As on Linux once the file has left the page cache, the error is reported to the descriptors that
were open at the write, and to no other.
"""

import errno
import os

from leveret.storage.disk.disk import Disk, failure


class LateErrorDisk(Disk):
    """suffix: of the files whose writes are lost."""

    def __init__(self, suffix):
        super().__init__()
        self._suffix = suffix
        self._open_descriptors = {}
        self._with_error = set()

    def _open(self, path, flags):
        descriptor = super()._open(path, flags)
        self._open_descriptors[descriptor] = path
        self._with_error.discard(descriptor)
        return descriptor

    def close(self, descriptor):
        self._open_descriptors.pop(descriptor, None)
        self._with_error.discard(descriptor)
        super().close(descriptor)

    def write(self, descriptor, path, data, offset):
        super().write(descriptor, path, data, offset)
        if path.suffix == self._suffix:
            for other, its_path in tuple(self._open_descriptors.items()):
                if its_path in (path, *path.parents):
                    self._with_error.add(other)

    def sync(self, descriptor, path):
        self._report(descriptor, path)
        super().sync(descriptor, path)

    def sync_file_system(self, descriptor, root):
        self._report(descriptor, root)
        super().sync_file_system(descriptor, root)

    def _report(self, descriptor, path):
        if descriptor in self._with_error:
            self._with_error.discard(descriptor)
            raise failure("sync", path, OSError(errno.EIO, os.strerror(errno.EIO)))
