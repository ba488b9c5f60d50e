"""The memory that the C library's allocator has taken from the system and handed out, for
RabbitMQ's dashboard of memory allocators.

The dashboard shows the figures of Erlang's allocators. Here there is one, `glibc`, with blocks in
carriers (`mbcs`) and large blocks that are mapped one by one (`sbcs`). Python keeps its own small
objects in arenas, for which there is no such function.
"""

import ctypes
from collections.abc import Callable, Iterator
from typing import cast

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

HELP = (
    "Allocated (carriers_size) and used (blocks_size) memory for the different allocators in the "
    "VM. See erts_alloc(3)."
)
LABELS = ("alloc", "instance_no", "kind", "usage")


class MallocInfo(ctypes.Structure):
    """The figures of glibc's allocator; its manual page mallinfo(3) explains them."""

    _fields_ = tuple(
        (name, ctypes.c_size_t)
        for name in (
            "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks",
            "fordblks", "keepcost",
        )
    )  # fmt: skip


def find_mallinfo() -> Callable[[], MallocInfo] | None:
    """The function mallinfo2, which glibc has since 2.33; None in other C libraries."""
    try:
        function = ctypes.CDLL(None).mallinfo2
    except AttributeError:
        return None
    function.restype = MallocInfo
    return cast(Callable[[], MallocInfo], function)


_mallinfo = find_mallinfo()


class AllocatorCollector(Collector):
    """Collects `erlang_vm_allocators`; without samples where the C library has no such function."""

    def collect(self) -> Iterator[Metric]:
        """The figures of the moment, in bytes or numbers of blocks."""
        family = GaugeMetricFamily("erlang_vm_allocators", HELP, labels=LABELS)
        if _mallinfo is not None:
            for (kind, usage), figure in _figures(_mallinfo()).items():
                family.add_metric(("glibc", "0", kind, usage), figure)
        yield family


def _figures(info: MallocInfo) -> dict[tuple[str, str], int]:
    """The figures, by RabbitMQ's kinds of carriers and of measurements."""
    return {
        ("mbcs", "blocks_size"): info.uordblks,
        ("mbcs", "carriers_size"): info.arena,
        ("mbcs_pool", "blocks_size"): 0,
        ("mbcs_pool", "carriers_size"): 0,
        ("sbcs", "blocks"): info.hblks,
        ("sbcs", "blocks_size"): info.hblkhd,
        ("sbcs", "carriers"): info.hblks,
        ("sbcs", "carriers_size"): info.hblkhd,
    }
