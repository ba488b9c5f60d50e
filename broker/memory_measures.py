"""How much memory this process uses, and how to give back what it does not.

There are two measures. What the operating system counts (`resident_bytes`) is what a container is
killed for. What the allocators have handed out (`allocated_bytes`) leaves out memory that was freed
and is kept for later. There are two allocators to ask: the C library's, and Python's own for blocks
of up to 512 bytes, whose arenas are mapped past the C library. Most of a small message is in the
latter: without it, 400 MB of them would count as 20.
"""

import ctypes
import re
import resource
from pathlib import Path

MALLINFO_FIELDS = (
    "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
    "keepcost",
)  # fmt: skip
"""What glibc's mallinfo2 tells, in its order."""
SMALL_BLOCKS = re.compile(rb"# bytes in allocated blocks +=\s+([0-9,]+)")
"""The one line of interest in what Python's allocator reports."""


def resident_bytes() -> int:
    """What the operating system counts as this process's memory."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        # Not Linux: the most it ever was, in kilobytes.
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * resource.getpagesize()


def allocated_bytes() -> int:
    """What is handed out; what the system counts where the allocators do not tell.

    Both walk over what they have: 3 ms for 1 GB of small blocks, up to 12 ms for 1 GB of large ones
    that is full of holes.
    """
    try:
        return _large_block_bytes() + _small_block_bytes()
    except (OSError, AttributeError):
        return resident_bytes()


class _Mallinfo2(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in MALLINFO_FIELDS]


def _large_block_bytes() -> int:
    """From the C library. Raises AttributeError if it is none that tells."""
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return int(info.uordblks + info.hblkhd)


def _small_block_bytes() -> int:
    """From Python's allocator. Raises OSError and AttributeError if it does not tell.

    It tells by writing to a C stream, as `sys._debugmallocstats` has it do to the standard error.
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
    """Have the C library return what is free to the system.

    Everything waits meanwhile: up to 10 ms for each 100 MB that is returned, and then 10 to 15 ms
    for each 1 GB that is in use, if that is full of holes, even when there is nothing to return.
    """
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        # Another C library than glibc: it has its own ways.
        return
