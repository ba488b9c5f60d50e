"""Generates random trace logs with known contents, for trying out and measuring the job.

`python -m leveret.analytics.generate DIR --events 50000000` writes files in the broker's layout
with a skewed load (most messages go to the first queue), and prints what they contain. The same
seed gives the same logs. Most messages are delivered and acknowledged; a few are delivered twice,
expire, are dead-lettered, are unroutable, or stay in their queue.
"""

import argparse
import random
import sys
import zlib
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import groupby
from pathlib import Path
from typing import BinaryIO, NamedTuple
from urllib.parse import quote

from leveret.broker.tracing import record

NODE, VHOST = "leveret@generated", "/"
DEAD_QUEUE = "graveyard"
LINES_PER_SORT = 30_000
HOUR_US = 3_600_000_000
SETTLED, TWICE, EXPIRED, REJECTED, NOWHERE, LEFT = (
    "acknowledged", "redelivered", "expired", "dead_lettered", "unroutable", "never_delivered",
)  # fmt: skip
FATES = (SETTLED, TWICE, EXPIRED, REJECTED, NOWHERE, LEFT)
WEIGHTS = (93.0, 3.0, 1.0, 1.0, 1.0, 1.0)


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
    lines_per_file: int = 2_000_000


def _who(connection: str, user: str) -> str:
    where = f'"node":"{NODE}","vhost":"{VHOST}"'
    return f'{where},"connection":"{connection}","channel":1,"user":"{user}"'


_WHERE = f'"node":"{NODE}","vhost":"{VHOST}"'
_PUBLISHER = _who("127.0.0.1:40001 -> 127.0.0.1:5672", "producer")
_CONSUMERS = [_who(f"127.0.0.1:{50001 + n} -> 127.0.0.1:5672", "consumer") for n in range(8)]

Line = tuple[int, str]


class _Generator:
    """Makes the lines of one message after the other, and counts their fates."""

    def __init__(self, load: Load) -> None:
        self.facts: Counter[str] = Counter()
        self._load = load
        self._random = random.Random(load.seed)
        self._number = (load.start_us // 1_000_000) << 32
        self._tag = 0

    def message(self, time_us: int) -> list[Line]:
        """Return all lines of the next message."""
        draw = self._random.random
        queue = 0 if draw() < self._load.skew else 1 + int(draw() * (self._load.queues - 1))
        fate = SETTLED if draw() < WEIGHTS[0] / 100 else self._rare_fate()
        self._number += 1
        self.facts[fate] += 1
        name = f"queue-{queue}"
        lines = [self._publish(time_us, queue, "" if fate == NOWHERE else f'"{name}"')]
        if fate in (SETTLED, TWICE, REJECTED):
            lines += self._delivered(time_us, queue, name, fate)
        elif fate == EXPIRED:
            end = time_us + 1_000_000
            lines.append((end, f'{{"event":"expire","time_us":{end},{_WHERE},'
                          f'"message":{self._number},"queue":"{name}"}}\n'))  # fmt: skip
        self.facts["events"] += len(lines)
        return lines

    def _rare_fate(self) -> str:
        return self._random.choices(FATES[1:], WEIGHTS[1:])[0]

    def _publish(self, time_us: int, queue: int, queues: str) -> Line:
        size = int(self._random.random() * 2_000)
        return time_us, (
            f'{{"event":"publish","time_us":{time_us},{_PUBLISHER},"message":{self._number},'
            f'"exchange":"orders","routing_keys":["key.{queue}"],"queues":[{queues}],'
            f'"body_size":{size},"properties":{{"delivery_mode":2,'
            f'"message_id":"{self._number:x}"}}}}\n'
        )

    def _delivered(self, time_us: int, queue: int, name: str, fate: str) -> list[Line]:
        consumer = self._number & 7
        who = _CONSUMERS[consumer]
        at = time_us + int(self._random.expovariate(1 / 20_000))
        lines = [self._deliver(at, who, consumer, queue, name, "false")]
        if fate == TWICE:
            at += 5_000
            lines.append(self._requeue(at, name))
            at += 1_000
            lines.append(self._deliver(at, who, consumer, queue, name, "true"))
        at += int(self._random.expovariate(1 / 5_000))
        settled = "reject" if fate == REJECTED else "ack"
        more = ',"requeue":false' if fate == REJECTED else ""
        lines.append((at, f'{{"event":"{settled}","time_us":{at},{who},"message":{self._number},'
                      f'"queue":"{name}","delivery_tag":{self._tag}{more}}}\n'))  # fmt: skip
        if fate == REJECTED:
            lines.append(self._dead_letter(at, name))
        return lines

    def _deliver(
        self, at: int, who: str, consumer: int, queue: int, name: str, redelivered: str
    ) -> Line:
        self._tag += 1
        return at, (
            f'{{"event":"deliver","time_us":{at},{who},"message":{self._number},"queue":"{name}",'
            f'"exchange":"orders","routing_keys":["key.{queue}"],"consumer_tag":"ctag-{consumer}",'
            f'"delivery_tag":{self._tag},"redelivered":{redelivered},"no_ack":false,'
            f'"body_size":1000,"properties":{{"delivery_mode":2}}}}\n'
        )

    def _requeue(self, at: int, name: str) -> Line:
        return at, (
            f'{{"event":"requeue","time_us":{at},{_WHERE},"message":{self._number},'
            f'"queue":"{name}"}}\n'
        )

    def _dead_letter(self, at: int, name: str) -> Line:
        message = self._number
        self._number += 1
        return at, (
            f'{{"event":"dead_letter","time_us":{at},{_WHERE},"message":{message},'
            f'"queue":"{name}","reason":"rejected","new_message":{self._number},'
            f'"exchange":"dlx","routing_keys":["dead"],"queues":["{DEAD_QUEUE}"]}}\n'
        )


class _Files:
    """Writes lines in the layout of a trace directory, one file after the other."""

    def __init__(self, directory: Path, lines_per_file: int) -> None:
        self._directory = directory
        self._lines_per_file = lines_per_file
        self._number = self._lines = self._hour = 0
        self._zip = zlib.compressobj(1, wbits=31)
        self._file: BinaryIO | None = None

    def write(self, time_us: int, lines: list[str]) -> None:
        """Write lines that belong to one hour."""
        if time_us // HOUR_US != self._hour:
            self.close()
        file = self._file or self._open(time_us)
        file.write(self._zip.compress("".join(lines).encode()))
        self._lines += len(lines)
        if self._lines >= self._lines_per_file:
            self.close()

    def close(self) -> None:
        """Close the current file."""
        if self._file is not None:
            self._file.write(self._zip.flush())
            self._file.close()
            self._file = None

    def _open(self, time_us: int) -> BinaryIO:
        at = datetime.fromtimestamp(time_us / 1e6, UTC)
        partition = record.PARTITION.format(
            vhost=quote(VHOST, safe=""), date=at.date(), hour=f"{at.hour:02}"
        )
        self._number += 1
        path = self._directory / partition / f"{NODE}-{time_us}-{self._number}{record.LINES_SUFFIX}"
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file, self._lines, self._hour = path.open("wb"), 0, time_us // HOUR_US
        self._zip = zlib.compressobj(1, wbits=31)
        header = f'{{"event":"header","version":1,"time_us":{time_us},{_WHERE},"sample":1}}\n'
        self._file.write(self._zip.compress(header.encode()))
        return self._file


def _sorted_lines(generator: _Generator, load: Load) -> Iterator[list[Line]]:
    """Return lines in order of time, in batches."""
    step_us = 1_000_000 / load.rate
    time_us, pending = float(load.start_us), list[Line]()
    while generator.facts["events"] < load.events:
        pending += generator.message(int(time_us))
        time_us += step_us
        if len(pending) >= LINES_PER_SORT:
            pending.sort()
            ready, pending = pending[: LINES_PER_SORT // 2], pending[LINES_PER_SORT // 2 :]
            yield ready
    pending.sort()
    yield pending


def generate(directory: Path, load: Load) -> Counter[str]:
    """Write the logs, and return the number of events and of messages with each fate."""
    generator, files = _Generator(load), _Files(directory, load.lines_per_file)
    for lines in _sorted_lines(generator, load):
        for _, of_hour in groupby(lines, lambda line: line[0] // HOUR_US):
            (time_us, first), *others = of_hour
            files.write(time_us, [first, *(line for _, line in others)])
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
