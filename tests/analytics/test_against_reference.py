"""The depth and latency tables compared with the reference implementation on random logs.

Many logs go through one job: each has a virtual host of its own.
"""

import random
import tempfile
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.analytics import reference
from tests.analytics.logs import START_US, event, write_log
from tests.analytics.running import analyze_quickly
from tests.analytics.tables import read_rows

LOGS, STEPS = 30, 80
QUEUES = ("a", "b", "c")
PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99}


class RandomNode:
    """Performs random actions of a node, and keeps the records."""

    def __init__(self, seed, vhost):
        self.random = random.Random(seed)
        self.vhost = vhost
        self.records = []
        self.now = START_US
        self.number = 0
        # Some messages are from before the trace began, and have no number.
        self.ready = {queue: [0] * self.random.randrange(3) for queue in QUEUES}
        self.unacked = {queue: [] for queue in QUEUES}

    def tell(self, name, **fields):
        self.records.append(event(name, self.now, self.vhost, **fields))

    def step(self):
        self.now += self.random.choice((0, 1, 7_000, 400_000, 3_000_000, 90_000_000))
        queue = self.random.choice(QUEUES)
        moves = [self.publish]
        moves += [self.deliver, self.expire, self.drop, self.purge] if self.ready[queue] else []
        moves += [self.ack, self.reject, self.requeue] if self.unacked[queue] else []
        weights = {self.publish: 6, self.deliver: 6, self.ack: 4}
        move = self.random.choices(moves, [weights.get(one, 1) for one in moves])[0]
        move(queue)

    def publish(self, queue):
        queues = self.random.sample(QUEUES, self.random.randrange(3))
        self.number += 1
        for target in queues:
            self.ready[target].append(self.number)
        self.tell("publish", message=self.number, queues=queues)

    def deliver(self, queue):
        message = self.ready[queue].pop(0)
        no_ack = self.random.random() < 0.2
        if not no_ack:
            self.unacked[queue].append(message)
        self.tell("deliver", message=message, queue=queue, no_ack=no_ack)

    def ack(self, queue):
        self.tell("ack", message=self.taken(queue), queue=queue)

    def reject(self, queue):
        requeue, message = self.random.random() < 0.5, self.taken(queue)
        self.tell("reject", message=message, queue=queue, requeue=requeue)
        self.ready[queue] += [message] * requeue

    def requeue(self, queue):
        message = self.taken(queue)
        self.tell("requeue", message=message, queue=queue)
        self.ready[queue].append(message)

    def taken(self, queue):
        unacked = self.unacked[queue]
        return unacked.pop(self.random.randrange(len(unacked)))

    def expire(self, queue):
        self.tell("expire", message=self.ready[queue].pop(0), queue=queue)

    def drop(self, queue):
        self.tell("drop", message=self.ready[queue].pop(0), queue=queue)

    def purge(self, queue):
        self.tell("drop", queue=queue, reason="purge", count=len(self.ready[queue]))
        self.ready[queue].clear()


def random_log(seed, vhost, steps):
    node = RandomNode(seed, vhost)
    for _ in range(steps):
        node.step()
    return node.records


def minute_of(row):
    return int(row.minute.timestamp()) // 60


def check_depth(rows, logs):
    found = {
        (row.vhost, row.queue, minute_of(row)): (
            row.ready,
            row.unacked,
            row.ready_max,
            row.unacked_max,
        )
        for row in rows
    }
    expected = {
        (vhost, *key): value
        for vhost, records in logs.items()
        for key, value in reference.depth(records).items()
    }
    assert found == expected


def check_latency(rows, logs):
    found = {}
    for row in rows:
        for measure, count in (("wait", row.waits), ("ack", row.acks)):
            if count:
                of = [row[f"{measure}_{name}_us"] for name in (*PERCENTILES, "max")]
                found[row.vhost, row.queue, minute_of(row), measure] = (count, *of)
    expected = {}
    for vhost, records in logs.items():
        for key, times in reference.latency(records).items():
            of = [reference.percentile(times, part) for part in PERCENTILES.values()]
            expected[vhost, *key] = (len(times), *of, times[-1])
    assert found == expected


@settings(
    max_examples=5,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=list(HealthCheck),
)
@given(seed=st.integers(0, 2**32))
def test_depth_and_latency_are_as_plain_python_says(seed):
    vhosts = [f"v{number}" for number in range(LOGS)]
    logs = {vhost: random_log(f"{seed} {vhost}", vhost, STEPS) for vhost in vhosts}
    with tempfile.TemporaryDirectory() as name:
        trace, out = Path(name) / "trace", Path(name) / "out"
        for vhost, records in logs.items():
            write_log(trace, records, vhost)
        analyze_quickly(trace, out, only=("depth", "latency"))
        check_depth(read_rows(out, "depth"), logs)
        check_latency(read_rows(out, "latency"), logs)
