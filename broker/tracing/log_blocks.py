"""The blocks of one trace log, its options, and the beginning of its records."""

from typing import Any, Final, NamedTuple

from leveret.broker.runtime.clock import Clock
from leveret.broker.tracing import record
from leveret.broker.tracing.batches import Batches
from leveret.broker.tracing.block_writer import BlockWriter
from leveret.broker.tracing.output import TraceOutput
from leveret.broker.tracing.shown import json_of, shown

BLOCK_BYTES: Final = 512 * 1024
"""Size of a block. Compressed: 30 to 100 KB."""


class LogOptions(NamedTuple):
    """The contents of a vhost's log.

    sample: one message in this number is logged. has_bodies: whether records have bodies.
    body_bytes_max: the part of each body that is logged; None for all.
    """

    node: str
    vhost: str
    sample: int = 1
    has_bodies: bool = False
    body_bytes_max: int | None = None


def event_start(event: str, options: LogOptions, **more: Any) -> str:
    """Return the first text of a record, up to its time."""
    known = {"event": event, "node": options.node, "vhost": shown(options.vhost), **more}
    return f'{json_of(known)[:-1]},"time_us":'


class LogBlocks:
    """The blocks of one log; see `batches.PendingRecords`."""

    def __init__(self, output: TraceOutput, clock: Clock, options: LogOptions) -> None:
        self.block = self._new_block(options)
        self.batches = Batches(output, clock, self)
        self._options = options

    def take(self) -> tuple[bytes, int]:
        """Return the block, and the number of its records."""
        count = self.block.records
        return self.block.take(), count

    def gap(self, began_us: int, ended_us: int, lost: int) -> bytes:
        """Return a block with the record that replaces lost ones."""
        start = event_start(record.GAP, self._options)
        block = self._new_block(self._options)
        line = f'{start}{began_us},"until_us":{ended_us},"lost":{lost}}}\n'
        block.happened(began_us, line.encode())
        return block.take()

    def _new_block(self, options: LogOptions) -> BlockWriter:
        return BlockWriter(options.node, shown(options.vhost), options.sample)
