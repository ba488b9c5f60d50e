"""Files and directories of the node that other users of the machine cannot read.

They contain payloads, names and addresses. A new file has the mode 0640 and a new directory 0750,
regardless of the umask: the group, such as that of operators, may read them. Administrators control
the modes of existing files and directories.
"""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

FILE_MODE, DIRECTORY_MODE = 0o640, 0o750


def make_directory(path: Path) -> None:
    """Create a directory and its parents, unless it exists. Raises OSError."""
    if path.is_dir():
        return
    make_directory(path.parent)
    path.mkdir(mode=DIRECTORY_MODE, exist_ok=True)
    path.chmod(DIRECTORY_MODE)


def opened(path: str, flags: int) -> int:
    """Open a file, and create it if the flags say so: an `opener` for `open`."""
    try:
        descriptor = os.open(path, flags | os.O_EXCL if flags & os.O_CREAT else flags, FILE_MODE)
    except FileExistsError:
        return os.open(path, flags & ~os.O_CREAT, FILE_MODE)
    if flags & os.O_CREAT:
        os.fchmod(descriptor, FILE_MODE)
    return descriptor


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Add the file's name to system errors of a write, a sync or a bind, which lack it."""
    try:
        yield
    except OSError as error:
        number = error.errno or errno.EIO
        raise OSError(number, error.strerror or str(error), str(path)) from error


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, and sync it. Raises OSError, which names the file."""
    temporary = path.with_name(path.name + ".new")
    with naming(path):
        with open(temporary, "wb", opener=opened) as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        descriptor = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
