"""Whatever a broker writes and however it is read, the tables of a follow are those of a batch.

Several nodes write random logs in small members. They are read in triggers at random times, each of
which reads a few kilobytes only, by a follow that is now and then started again.
"""

import gzip
import random

import pytest

from leveret.analytics.job import follow_reading
from leveret.analytics.job.follow_quickly import Following
from leveret.analytics.job.job import JobOptions
from leveret.analytics.traces.trace_files import HOUR_US
from leveret.broker.tracing.record import LINES_SUFFIX, OPEN_LINES_SUFFIX, STREAM_EVENTS
from tests.analytics.logs import START_US, header, lines, partition
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import everything
from tests.analytics.test_against_reference import QUEUES, RandomNode

FILES_OF_AN_HOUR = 2
pytestmark = pytest.mark.usefixtures("without_reports")


class BusyNode(RandomNode):
    """Its messages have ids, some of them twice; they become dead letters, and clocks go back.

    It also has streams, whose offsets are as random.
    """

    def step(self):
        if self.random.random() < 0.02:
            self.now -= self.random.choice((20_000_000, 200_000_000))
        if self.random.random() < 0.1:
            self.tell(self.random.choice(("open", "close")))
        if self.random.random() < 0.02:
            self.tell("gap")
        if self.random.random() < 0.15:
            self.use_stream()
        super().step()

    def use_stream(self):
        number = self.random.randrange
        self.tell(
            self.random.choice(STREAM_EVENTS), queue=f"stream {number(2)}", offset=number(1000),
            messages=number(1, 50), lag=number(90), first_offset=number(300),
            published_us=self.now - number(10**8), max_bytes=number(10**6),
        )  # fmt: skip

    def tell(self, name, **fields):
        if name == "publish" and self.random.random() < 0.6:
            fields["streams"] = ["stream 1"]
            fields["properties"] = {"message_id": f"id {self.random.randrange(200)}"}
        number = self.random.randrange(3)
        super().tell(
            name, **fields, connection=f"client {number}", consumer_tag=f"tag {number}",
            user=f"user {number}", routing_keys=[f"key {number}"],
            redelivered=self.random.random() < 0.2,
        )  # fmt: skip

    def expire(self, queue):
        message = self.ready[queue].pop(0)
        if self.random.random() < 0.5:
            self.tell("expire", message=message, queue=queue)
            return
        self.number += 1
        target = self.random.choice(QUEUES)
        self.tell(
            "dead_letter", message=message, queue=queue, reason="expired", exchange="dlx",
            new_message=self.number, queues=[target],
        )  # fmt: skip
        self.ready[target].append(self.number)


class NodeLog:
    """The log of a node, which it writes to a file after the other."""

    def __init__(self, directory, records, name, sample):
        self._directory, self._records = directory, records
        self._name, self._sample = name, sample
        self._files = 0
        self._begin()

    def _begin(self):
        name = f"{self._name}-{START_US}-{self._files}{OPEN_LINES_SUFFIX}"
        self._files += 1
        # Now and then an hour has passed, so that the next file is in another directory.
        hours = self._files // FILES_OF_AN_HOUR
        self.path = partition(self._directory, time_us=START_US + hours * HOUR_US) / name
        self._append([header(sample=self._sample, node=f"{self._name} {self._files}")])

    def _append(self, records):
        with self.path.open("ab") as file:
            file.write(gzip.compress(lines(records).encode()))

    def write(self, count):
        """Write some records, or all that are left; return whether there were any."""
        some, self._records = self._records[:count], self._records[count:]
        if some:
            self._append(some)
        return bool(some)

    def finish(self, is_last=False):
        name = self.path.name.removesuffix(OPEN_LINES_SUFFIX) + LINES_SUFFIX
        self.path.rename(self.path.with_name(name))
        if not is_last:
            self._begin()


def records_of(seed, number):
    node = BusyNode(f"{seed} {number}", "/")
    # Numbers of another node, and those that this node gives to messages later.
    node.number = number << 32
    for _ in range(250):
        node.step()
    for record in node.records:
        record["node"] = f"node {number}"
        if "connection" in record:
            record["connection"] += f" of node {number}"
    return node.records


def swapped(records, choice):
    """Return the records of two nodes: what happened to a message may be in the log of either."""
    parts = [], []
    for record in records:
        parts[choice.random() < 0.3].append(record)
    return parts


def same_tables(tmp_path, trace):
    analyze_quickly(trace, tmp_path / "batch")
    at_once, followed = everything(tmp_path / "batch"), everything(tmp_path / "out")
    for name, rows in at_once.items():
        assert followed[name] == rows, name


@pytest.mark.parametrize("seed", range(2))
def test_tables_are_those_of_a_batch(tmp_path, monkeypatch, seed):
    choice = random.Random(seed)
    monkeypatch.setattr(follow_reading, "TRIGGER_BYTES", 4_000)
    trace, options = tmp_path / "trace", JobOptions(str(tmp_path / "trace"), str(tmp_path / "out"))
    records = swapped(records_of(seed, 1), choice)
    logs = [NodeLog(trace, one, f"a{place}", 1 + seed % 2) for place, one in enumerate(records)]
    logs.append(NodeLog(trace, records_of(seed, 2), "b", 1 + seed % 2))
    following = Following(options)
    while sum(log.write(choice.randint(1, 40)) for log in logs if choice.random() < 0.6):
        if choice.random() < 0.3:
            choice.choice(logs).finish()
        if choice.random() < 0.3:
            following = Following(options)
        if choice.random() < 0.3:
            following.update()
        else:
            following.trigger()
    for log in logs:
        log.write(10_000)
        log.finish(is_last=True)
    following.update()
    same_tables(tmp_path, trace)
