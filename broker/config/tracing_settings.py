"""The settings of traces that are written to files."""

from dataclasses import dataclass
from pathlib import Path

from broker.config.declaration import setting
from broker.config.values import PATH, Kind, size, unless, whole_number

MIB = 1024 * 1024
DAYS: Kind[int] = whole_number("days", minimum=1)


@dataclass(frozen=True)
class TracingSettings:
    """What `Config` has of them."""

    tracing_dir: Path | None = setting(  # noqa: RUF009
        "tracing.dir",
        PATH,
        None,
        "The directory for what traces write.",
        default_text="trace in the data directory",
    )
    tracing_waiting_bytes: int = setting(
        "tracing.queue_size",
        size(minimum=MIB),
        64 * MIB,
        "What each trace may hold until the disk takes it; beyond it the trace has gaps.",
        default_text="64MiB",
    )
    tracing_file_bytes: int = setting(
        "tracing.log.file_size",
        size(minimum=1024),
        64 * MIB,
        "The size, compressed, at which a trace log begins a new file.",
        default_text="64MiB",
    )
    tracing_bytes_max: int | None = setting(
        "tracing.log.max_total_size",
        unless(size(minimum=1), "infinity"),
        None,
        "What all trace logs may take on the disk before the oldest files are removed.",
        default_text="infinity",
    )
    tracing_days_max: int | None = setting(
        "tracing.log.max_age",
        unless(DAYS, "infinity"),
        None,
        "After how many days the files of trace logs are removed.",
        default_text="infinity",
    )
