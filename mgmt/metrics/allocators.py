"""What the C library's allocator has of the system and has given away, for RabbitMQ's dashboard of
memory allocators.

It has the figures of Erlang's allocators; here there is one, `glibc`, with blocks in carriers
(`mbcs`) and large blocks that are mapped one by one (`sbcs`). Python's own small objects are in
arenas of Python's, which no function tells of.
"""

import ctypes
from collections.abc import Callable
from typing import cast

from mgmt.metrics import families as names
from mgmt.metrics.text import Exposition, render_labels


class _MallocInfo(ctypes.Structure):
    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def _find_mallinfo() -> Callable[[], _MallocInfo] | None:
    """The function, in glibc 2.33 or later."""
    try:
        function = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    function.restype = _MallocInfo
    return cast(Callable[[], _MallocInfo], function)


_mallinfo = _find_mallinfo()


def add_allocators(page: Exposition) -> None:
    """Nothing, where the C library does not tell."""
    if _mallinfo is None:
        return
    info = _mallinfo()
    figures = {
        ("mbcs", "blocks_size"): info.uordblks,
        ("mbcs", "carriers_size"): info.arena,
        ("mbcs_pool", "blocks_size"): 0,
        ("mbcs_pool", "carriers_size"): 0,
        ("sbcs", "blocks"): info.hblks,
        ("sbcs", "blocks_size"): info.hblkhd,
        ("sbcs", "carriers"): info.hblks,
        ("sbcs", "carriers_size"): info.hblkhd,
    }
    for (kind, usage), figure in figures.items():
        labels = (("alloc", "glibc"), ("instance_no", "0"), ("kind", kind), ("usage", usage))
        page.add(names.ALLOCATORS, figure, render_labels(labels), prefix="")
