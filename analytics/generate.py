"""Generates random trace logs with known contents, for trying out and measuring the job.

`python -m leveret.analytics.generate DIR --events 50000000` writes files as the broker does, of
blocks of records (broker/tracing/block_format.py), with a skewed load (most messages go to the
first queue), and prints what they contain. `--rate 20` is the log of a quiet vhost: as in the
broker, a block waits half a second, so it has 30 records and not 15,000. The same seed gives the
same logs. Each message has properties of its own. Most messages are delivered and acknowledged; a
few are delivered twice, expire, are dead-lettered, are unroutable, or stay in their queue.
"""

import argparse
import json
import random
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import quote

from isal import isal_zlib

from leveret.broker.tracing import block_format, record

NODE, VHOST = "leveret@generated", "/"
DEAD_QUEUE = "graveyard"
PUBLISHERS, CONSUMERS = 4, 8
EVENTS_PER_SORT = 60_000
BLOCK_BYTES, WAIT_US, FILE_BYTES = 512 * 1024, 500_000, 64 * 1024 * 1024
"""As the broker has them (log_blocks.py, batches.py, log_directory.py)."""
LEVEL, GZIP = 1, 31
HOUR_US = 3_600_000_000
SETTLED, TWICE, EXPIRED, REJECTED, NOWHERE, LEFT = (
    "acknowledged", "redelivered", "expired", "dead_lettered", "unroutable", "never_delivered",
)  # fmt: skip
FATES = (SETTLED, TWICE, EXPIRED, REJECTED, NOWHERE, LEFT)
WEIGHTS = (93.0, 3.0, 1.0, 1.0, 1.0, 1.0)
_HEADERS = b"\x06tenantS\x00\x00\x00\x04shop\x07attemptI\x00\x00\x00\x01"
_PROPERTIES = (
    b"\xb0\xc0\x10application/json" + struct.pack(">I", len(_HEADERS)) + _HEADERS + b"\x02"
)
"""Content type, headers and delivery mode; a message-id and a timestamp follow."""
_TIMESTAMP = struct.Struct(">Q")


class Load(NamedTuple):
    """What to generate. skew: share of the first queue, 0 to 1; rate: messages per second of log
    time.
    """

    events: int
    queues: int = 20
    skew: float = 0.9
    rate: float = 5_000.0
    seed: int = 1
    start_us: int = 1_767_571_200_000_000  # Monday, 2026-01-05


class _Event(NamedTuple):
    """A record. place: orders events of one time. kind: that of its entry in a block.

    start: its first text. about: its second text, or for a RECORD what follows the time.
    """

    time_us: int
    place: int
    kind: int
    start: str
    about: str
    message: int
    body_size: int = 0
    delivery_tag: int = 0
    is_redelivered: bool = False


def _start(event: str, **more: Any) -> str:
    known = {"event": event, "node": NODE, "vhost": VHOST, **more}
    return f'{json.dumps(known, separators=(",", ":"))[:-1]},"time_us":'


def _client(port: int, user: str) -> dict[str, Any]:
    return {"connection": f"127.0.0.1:{port} -> 127.0.0.1:5672", "channel": 1, "user": user}


class _RecordTexts:
    """The texts of the records of one queue."""

    def __init__(self, queue: int) -> None:
        self.name = name = f"queue-{queue}"
        producers = [_client(40_001 + number, "producer") for number in range(PUBLISHERS)]
        consumers = [_client(50_001 + number, "consumer") for number in range(CONSUMERS)]
        self.published = [_start("publish", **who, queues=[name]) for who in producers]
        self.unroutable = [_start("publish", **who, queues=[]) for who in producers]
        self.delivered = [
            _start("deliver", **who, queue=name, consumer_tag=f"ctag-{place}", no_ack=False)
            for place, who in enumerate(consumers)
        ]
        self.acked = [_start("ack", **who, queue=name) for who in consumers]
        self.rejected = [_start("reject", **who, queue=name, requeue=False) for who in consumers]
        self.requeued = _start("requeue", queue=name)
        self.expired = _start("expire", queue=name)
        self.dead_lettered = _start(
            "dead_letter", queue=name, reason="rejected", exchange="dlx", routing_keys=["dead"],
            queues=[DEAD_QUEUE],
        )  # fmt: skip
        self.about = f',"exchange":"orders","routing_keys":["key.{queue}"],"properties":'


class _Generator:
    """Makes the events of one message after the other, and counts their fates."""

    def __init__(self, load: Load) -> None:
        self.facts: Counter[str] = Counter()
        self._load = load
        self._random = random.Random(load.seed)
        self._number = (load.start_us // 1_000_000) << 32
        self._place = self._tag = 0
        self._texts = [_RecordTexts(queue) for queue in range(load.queues)]

    def message(self, time_us: int) -> list[_Event]:
        """Return all events of the next message."""
        draw = self._random.random
        queue = 0 if draw() < self._load.skew else 1 + int(draw() * (self._load.queues - 1))
        fate = SETTLED if draw() < WEIGHTS[0] / 100 else self._rare_fate()
        self._number += 1
        self.facts[fate] += 1
        texts, size = self._texts[queue], int(draw() * 2_000)
        starts = texts.unroutable if fate == NOWHERE else texts.published
        start = starts[self._number % PUBLISHERS]
        events = [self._event(time_us, block_format.PUBLISH, start, texts.about, size)]
        if fate in (SETTLED, TWICE, REJECTED):
            events += self._delivered(time_us, texts, size, fate)
        elif fate == EXPIRED:
            events.append(self._record(time_us + 1_000_000, texts.expired))
        self.facts["events"] += len(events)
        return events

    def _rare_fate(self) -> str:
        return self._random.choices(FATES[1:], WEIGHTS[1:])[0]

    def _delivered(self, time_us: int, texts: _RecordTexts, size: int, fate: str) -> list[_Event]:
        consumer = self._number % CONSUMERS
        start = texts.delivered[consumer]
        at = time_us + int(self._random.expovariate(1 / 20_000))
        self._tag += 1
        events = [self._event(at, block_format.DELIVER, start, texts.about, size)]
        if fate == TWICE:
            at += 5_000
            events.append(self._record(at, texts.requeued))
            at += 1_000
            self._tag += 1
            events.append(self._event(at, block_format.DELIVER, start, texts.about, size, True))
        at += int(self._random.expovariate(1 / 5_000))
        if fate == REJECTED:
            events.append(
                self._record(at, texts.rejected[consumer], f',"delivery_tag":{self._tag}')
            )
            number = self._number + 1
            events.append(self._record(at, texts.dead_lettered, f',"new_message":{number}'))
            self._number = number
        else:
            events.append(self._event(at, block_format.ACK, texts.acked[consumer], "", 0))
        return events

    def _event(
        self, at: int, kind: int, start: str, about: str, size: int, is_redelivered: bool = False
    ) -> _Event:
        self._place += 1
        return _Event(
            at, self._place, kind, start, about, self._number, size, self._tag, is_redelivered
        )

    def _record(self, at: int, start: str, more: str = "") -> _Event:
        self._place += 1
        return _Event(at, self._place, block_format.RECORD, start, more, self._number)


class _Block:
    """A block of records that is being made."""

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._texts: dict[str, int] = {}
        self._properties: dict[int, int] = {}
        self._from_us = self._to_us = self._records = 0
        self.size = 0

    def add(self, event: _Event) -> None:
        """Add a record, after the records that it refers to and that the block lacks."""
        self._from_us = self._from_us or event.time_us
        self._to_us = event.time_us
        self._records += 1
        time_us, _, kind, start, about, message, size, tag, is_redelivered = event
        if kind == block_format.ACK:
            fields = block_format.ACK_FIELDS.pack(self._text(start), time_us, message, tag)
        elif kind == block_format.RECORD:
            line = f'{start}{time_us},"message":{message}{about}}}\n'.encode()
            fields = block_format.LENGTH.pack(len(line)) + line
        else:
            shared = self._text(start), self._text(about), self._properties_of(message, time_us)
            if kind == block_format.PUBLISH:
                fields = block_format.PUBLISH_FIELDS.pack(*shared, time_us, message, size)
            else:
                fields = block_format.DELIVER_FIELDS.pack(
                    *shared, time_us, message, size, tag, is_redelivered
                )
        self._append(kind, fields)

    def is_ready(self, time_us: int) -> bool:
        """Tell whether a record of this time comes too late for the block, or it is full."""
        return self.size >= BLOCK_BYTES or (
            self._records > 0 and time_us >= self._from_us + WAIT_US
        )

    def take(self) -> bytes:
        """Return the whole block."""
        header = json.dumps({
            "version": block_format.VERSION, "node": NODE, "vhost": VHOST, "sample": 1,
            "records": self._records, "from_us": self._from_us, "to_us": self._to_us,
        }).encode()  # fmt: skip
        head = block_format.MAGIC, block_format.LENGTH.pack(len(header)), header
        return b"".join((*head, *self._pieces))

    def _text(self, text: str) -> int:
        number = self._texts.get(text)
        if number is None:
            number = self._texts[text] = len(self._texts)
            encoded = text.encode()
            self._append(block_format.TEXT, block_format.LENGTH.pack(len(encoded)) + encoded)
        return number

    def _properties_of(self, message: int, time_us: int) -> int:
        number = self._properties.get(message)
        if number is None:
            number = self._properties[message] = len(self._properties)
            timestamp = _TIMESTAMP.pack(time_us // 1_000_000)
            raw = b"%s\x10%016x%s" % (_PROPERTIES, message, timestamp)
            self._append(block_format.PROPERTIES, block_format.LENGTH.pack(len(raw)) + raw)
        return number

    def _append(self, kind: int, data: bytes) -> None:
        self._pieces.append(bytes((kind,)) + data)
        self.size += 1 + len(data)


class _Files:
    """Writes blocks in the layout of a trace directory, one file after the other."""

    def __init__(self, directory: Path, start_us: int) -> None:
        self._directory = directory
        self._start_us = start_us
        self._number = self._hour = 0
        self._file: BinaryIO | None = None
        self._block = _Block()

    def write(self, events: list[_Event]) -> None:
        """Write events, in the order of time."""
        for event in events:
            hour = event.time_us // HOUR_US
            if hour != self._hour or self._block.is_ready(event.time_us):
                self._flush()
                if hour != self._hour or (self._file and self._file.tell() >= FILE_BYTES):
                    self.close()
                self._hour = hour
            self._block.add(event)

    def close(self) -> None:
        """Close the current file."""
        self._flush()
        if self._file is not None:
            self._file.close()
            self._file = None

    def _flush(self) -> None:
        if self._block.size:
            file = self._file = self._file or self._open()
            file.write(isal_zlib.compress(self._block.take(), LEVEL, GZIP))
            self._block = _Block()

    def _open(self) -> BinaryIO:
        at = datetime.fromtimestamp(self._hour * HOUR_US / 1e6, UTC)
        partition = record.PARTITION.format(
            vhost=quote(VHOST, safe=""), date=at.date(), hour=f"{at.hour:02}"
        )
        name = f"{NODE}-{self._start_us}-{self._number}{record.SUFFIX}"
        self._number += 1
        path = self._directory / partition / name
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("wb")


def _sorted_events(generator: _Generator, load: Load) -> Iterator[list[_Event]]:
    """Return events in order of time, in batches."""
    step_us = 1_000_000 / load.rate
    time_us, pending = float(load.start_us), list[_Event]()
    while generator.facts["events"] < load.events:
        pending += generator.message(int(time_us))
        time_us += step_us
        if len(pending) >= EVENTS_PER_SORT:
            pending.sort()
            ready, pending = pending[: EVENTS_PER_SORT // 2], pending[EVENTS_PER_SORT // 2 :]
            yield ready
    pending.sort()
    yield pending


def generate(directory: Path, load: Load) -> Counter[str]:
    """Write the logs, and return the number of events and of messages with each fate."""
    generator, files = _Generator(load), _Files(directory, load.start_us)
    for events in _sorted_events(generator, load):
        files.write(events)
    files.close()
    return generator.facts


def main(arguments: list[str] | None = None) -> int:
    """Run the command and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m leveret.analytics.generate", description=__doc__
    )
    parser.add_argument("directory", type=Path)
    parser.add_argument("--events", type=int, default=1_000_000)
    parser.add_argument("--queues", type=int, default=20)
    parser.add_argument("--skew", type=float, default=0.9, help="first queue's share, 0 to 1")
    parser.add_argument("--rate", type=float, default=5_000.0, help="messages per second")
    parser.add_argument("--seed", type=int, default=1)
    options = vars(parser.parse_args(arguments))
    facts = generate(options.pop("directory"), Load(**options))
    for name, count in sorted(facts.items()):
        sys.stdout.write(f"{name}: {count:,}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
