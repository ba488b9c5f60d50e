"""The settings of traces that are written to files."""

from dataclasses import dataclass
from pathlib import Path

from leveret.broker.config.declaration import setting
from leveret.broker.config.value_kinds import PATH, Kind, size, unless, whole_number

MIB = 1024 * 1024
DAYS: Kind[int] = whole_number("days", minimum=1)


@dataclass(frozen=True)
class TracingSettings:
    """`config.tracing`."""

    dir: Path | None = setting(
        "tracing.dir",
        PATH,
        None,
        "The directory of trace files.",
        default_text="trace in the data directory",
    )
    waiting_bytes: int = setting(
        "tracing.queue_size",
        size(minimum=MIB),
        64 * MIB,
        "How much output each trace may buffer while the disk is slow; beyond that the trace has "
        "gaps.",
        default_text="64MiB",
    )
    file_bytes: int = setting(
        "tracing.log.file_size",
        size(minimum=1024),
        64 * MIB,
        "The compressed size at which a trace log starts a new file.",
        default_text="64MiB",
    )
    bytes_max: int | None = setting(
        "tracing.log.max_total_size",
        unless(size(minimum=1), "infinity"),
        None,
        "The total size of all trace logs above which the oldest files are removed.",
        default_text="infinity",
    )
    days_max: int | None = setting(
        "tracing.log.max_age",
        unless(DAYS, "infinity"),
        None,
        "The age in days at which files of trace logs are removed.",
        default_text="infinity",
    )
