"""The families of the process and its runtime, which prometheus-client writes.

They are few, and none of them belongs to a queue, channel or connection: the process, Python's
garbage collector and version (the library's own collectors), the C library's allocator
(allocators.py) and the cost of scrapes (telemetry.py). The library takes forty times as long for a
sample as text.py: docs/decisions/001-metrics-exposition.md has the measurement.
"""

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector

from leveret.mgmt.metrics.allocators import AllocatorCollector
from leveret.mgmt.metrics.telemetry import Telemetry


def runtime_registry(telemetry: Telemetry) -> CollectorRegistry:
    """A registry with one collector of each kind, apart from the library's global registry."""
    registry = CollectorRegistry(auto_describe=False)
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    GCCollector(registry=registry)
    registry.register(AllocatorCollector())
    registry.register(telemetry)
    return registry
