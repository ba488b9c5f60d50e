"""Measuring the memory use of this process, and returning free memory to the system.

There are two measures. A container's limit applies to the resident set size (`resident_bytes`).
The allocated memory (`allocated_bytes`) leaves out memory that was freed and is kept by the
allocators. There are two allocators: the C library's, and Python's for blocks of up to 512 bytes,
whose arenas are mapped without the C library. Most of a small message is in the latter: without it,
400 MB of small messages would count as 20.
"""

import ctypes
import re
import resource
from pathlib import Path

MALLINFO_FIELDS = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
    "keepcost",
)  # fmt: skip
"""The fields of glibc's mallinfo2, in order."""
SMALL_BLOCKS = re.compile(rb"# bytes in allocated blocks +=\s+([0-9,]+)")
"""The line of interest in the report of Python's allocator."""


def resident_bytes() -> int:
    """The resident set size of this process."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        # Not Linux: the maximum so far, in kilobytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def mapped_bytes() -> int:
    """The pages of files in the resident set size: the program and its libraries.

    0 on systems other than Linux, which do not report it.
    """
    try:
        shared_pages = int(Path("/proc/self/statm").read_text().split()[2])
    except OSError:
        return 0
    return shared_pages * resource.getpagesize()


def allocated_bytes() -> int:
    """The allocated memory, or the resident set size if the allocators do not report it.

    Both allocators walk over their blocks: 3 ms for 1 GB of small blocks, up to 12 ms for 1 GB of
    large ones that is fragmented.
    """
    try:
        return _large_block_bytes() + _small_block_bytes()
    except (OSError, AttributeError):
        return resident_bytes()


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO_FIELDS]


def _large_block_bytes() -> int:
    """The bytes of large blocks. Raises AttributeError if the C library does not report them."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return int(info.uordblks + info.hblkhd)


def _small_block_bytes() -> int:
    """The bytes of small blocks. Raises OSError and AttributeError if they are not reported.

    Python's allocator writes its report to a C stream; `sys._debugmallocstats` uses stderr.
    """
    library = ctypes.CDLL(None)
    report_to = ctypes.pythonapi._PyObject_DebugMallocStats
    library.open_memstream.restype = ctypes.c_void_p
    text, size = ctypes.c_char_p(), ctypes.c_size_t()
    stream = ctypes.c_void_p(library.open_memstream(ctypes.byref(text), ctypes.byref(size)))
    if not stream:
        raise OSError("no memory stream")
    report_to(stream)
    library.fclose(stream)
    report = text.value or b""
    library.free(text)
    found = SMALL_BLOCKS.search(report)
    if found is not None:
        return int(found[1].replace(b",", b""))
    if report:
        raise OSError("an unknown report")
    # PYTHONMALLOC=malloc: all blocks are the C library's.
    return 0


def give_back_freed_memory() -> None:
    """Make the C library return free memory to the system.

    Blocks the event loop: up to 10 ms for each 100 MB that is returned, and 10 to 15 ms for each
    1 GB in use that is fragmented, even if there is nothing to return.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        # The C library is not glibc.
        return
