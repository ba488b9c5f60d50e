"""The settings of memory and disk: the limits at which publishers are blocked."""

from dataclasses import dataclass

from leveret.broker.config.declaration import setting
from leveret.broker.config.value_kinds import MILLISECONDS, fraction, one_of, size


@dataclass(frozen=True)
class MemorySettings:
    """`config.memory`. If both forms of the limit are set, the number of bytes is used."""

    high_watermark_relative: float = setting(
        "vm_memory_high_watermark.relative",
        fraction(),
        0.4,
        "The share of the memory above which publishers are blocked.",
    )
    high_watermark_bytes: int | None = setting(
        "vm_memory_high_watermark.absolute",
        size(),
        None,
        "The same as an amount; takes precedence over the share.",
    )
    paging_ratio: float = setting(
        "vm_memory_high_watermark_paging_ratio",
        fraction(maximum=1),
        0.5,
        "The share of that limit above which queues move messages to disk.",
    )
    calculation_strategy: str = setting(
        "vm_memory_calculation_strategy",
        one_of("rss", "allocated", "erlang", "legacy"),
        "rss",
        "How memory use is measured; rss: the resident set size of the operating system.",
    )
    total_bytes: int | None = setting(
        "total_memory_available_override_value",
        size(minimum=1),
        None,
        "The total memory from which shares are computed.",
        default_text="the memory of the machine or the container",
    )
    monitor_interval_ms: int = setting(
        "memory_monitor_interval",
        MILLISECONDS,
        2500,
        "How often memory use is compared with its limit.",
    )


@dataclass(frozen=True)
class DiskSettings:
    """`config.disk`. `load_config` sets one of the two forms of the limit to None."""

    free_limit_bytes: int | None = setting(
        "disk_free_limit.absolute",
        size(),
        50_000_000,
        "The free space on the data directory's disk below which publishers are blocked.",
        default_text="50MB",
    )
    free_limit_relative: float | None = setting(
        "disk_free_limit.relative",
        fraction(),
        None,
        "The same as a multiple of the memory.",
    )
