"""Random operations on a store with a few queues, and a record of what was promised.

All randomness comes from one seed. `check` compares a restarted store with the record: what must be
there, what may be there, and what must not.
"""

import asyncio
import random
from collections import Counter

from leveret.broker.amqp.content_header import read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.storage.check.check import check_store
from leveret.storage.disk.disk import Disk
from leveret.storage.messages.message import Address, Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.metadata.metadata import NoMetadata
from leveret.storage.store.store import Store
from tests.storage.reading import ready_entries

PERSISTENT = read_header(encode_properties({"delivery_mode": 2}))
TRANSIENT = read_header(b"\0\0")
ADDRESSES = [
    Address("x", key, bytes((1,)) + b"x" + bytes((len(key),)) + key.encode()) for key in ("a", "bc")
]
DURABLE = {1: "one", 2: "two", 3: "lazy"}
EMBED_BELOW = 300
TRACED_FROM = 7_000_000_000_000_000_000
"""Every third run publishes as in a traced vhost: with message numbers from here on."""


def make_header(raw):
    return read_header(raw)


class Waiter:
    """Records the store's confirms."""

    def __init__(self, confirmed, numbers):
        self._confirmed = confirmed
        self._numbers = numbers

    def confirm(self, first, holder):
        self._confirmed.update(self._numbers)


class Record:
    """The fate of each message of each queue. Numbers identify messages."""

    def __init__(self):
        self.published = {key: {} for key in DURABLE}
        self.traced = {}
        self.confirmed = set()
        self.fetched = {key: set() for key in DURABLE}
        self.acked = {key: set() for key in DURABLE}
        self.order = {key: [] for key in DURABLE}


class Machine:
    """A store, its queues and their record. It can be crashed and restarted."""

    def __init__(self, directory, seed, disk=None):
        self.directory = directory
        self.random = random.Random(seed)
        self.record = Record()
        self.disk = disk or Disk()
        self.unacked = {key: [] for key in DURABLE}
        self._freeing = []
        self._next = 0

    def start(self, is_damaged=False):
        """Start the store. is_damaged: a test has damaged its files, so that a check finds it."""
        if not is_damaged:
            assert check_store(self.directory).problems == []
        self.store = Store(
            self.directory,
            NoMetadata(),
            make_header,
            embed_below=EMBED_BELOW,
            disk=self.disk,
            log_file_bytes=20_000,
        )
        # Readers wait for the disk.
        self.store.reads.worker = None
        self.store.open()
        self.queues = {
            key: self.store.queue(key, 0, name, True, name == "lazy")
            for key, name in DURABLE.items()
        }
        self.transient = self.store.queue(0, 0, "transient", False, False)
        self.store.all_restored()
        self.store.pager.set_budget(30_000)

    async def work(self, steps):
        """Execute random operations. Raises the disk's errors."""
        for _ in range(steps):
            self._step()
            # The messages of a purge are freed while other operations go on.
            self._freeing = [steps for steps in self._freeing if next(steps, 0)]
            if self.random.random() < 0.2:
                await asyncio.sleep(0)
            if self.random.random() < 0.02:
                await asyncio.sleep(0.003)
            if self.store.log.failure is not None:
                return

    def _step(self):
        key = self.random.choice(list(DURABLE))
        action = self.random.choices(
            [self._publish, self._fetch, self._ack, self._requeue, self._drop, self._purge],
            [40, 25, 25, 5, 3, 0.3],
        )[0]
        action(key)

    def _publish(self, key):
        header = TRANSIENT if self.random.random() < 0.1 else PERSISTENT
        address = self.random.choice(ADDRESSES)
        messages, numbers = [], []
        traced_from = 0 if self._next % 3 else TRACED_FROM
        for _ in range(self.random.choice((1, 1, 3, 20))):
            numbers.append(self._next)
            size = self.random.choice((0, 10, 100, 1000 if self.random.random() < 0.3 else 20))
            body = b"%d:" % self._next + bytes(size)
            traced = self.record.traced[self._next] = traced_from and traced_from + self._next
            messages.append(Message(address, header, body, None, traced))
            self._next += 1
        keys = {key} if self.random.random() < 0.8 else set(DURABLE)
        run = run_of(messages)
        for target in sorted(keys):
            queue = self.queues[target]
            if queue.publish(run, 0):
                waiter = Waiter(self.record.confirmed, [(target, n) for n in numbers])
                queue.when_safe(waiter, 1, target)
            self.record.published[target].update(dict.fromkeys(numbers, header is PERSISTENT))
        if self.random.random() < 0.2:
            self.transient.publish(run, 0)
            self.transient.fetch(self.random.randint(1, 20), self.random.random() < 0.1)

    def _fetch(self, key):
        entries = self.queues[key].fetch(self.random.randint(1, 30), True)
        self.record.fetched[key].update(map(number_of, entries))
        self.unacked[key] += entries

    def _ack(self, key):
        unacked = self.unacked[key]
        in_order = self.random.random() < 0.8
        for _ in range(min(len(unacked), self.random.randint(1, 30))):
            entry = unacked.pop(0 if in_order else self.random.randrange(len(unacked)))
            self.queues[key].ack([entry])
            self.record.acked[key].add(number_of(entry))

    def _requeue(self, key):
        count = self.random.randint(0, len(self.unacked[key]))
        entries, self.unacked[key] = self.unacked[key][:count], self.unacked[key][count:]
        self.queues[key].requeue(entries)

    def _drop(self, key):
        if self.queues[key].ready_count:
            (head,) = self.queues[key].heads()
            entry = self.queues[key].drop()
            assert head.position == entry.position
            self.record.fetched[key].add(number_of(entry))
            self.record.acked[key].add(number_of(entry))

    def _purge(self, key):
        gone = set(map(number_of, ready_entries(self.queues[key])))
        purged = self.queues[key].purge()
        assert purged.dropped == len(gone)
        self._freeing.append(purged.freeing)
        self.record.acked[key] |= gone

    async def halt(self):
        """Simulate the end of the process: pending operations are not executed."""
        store = self.store
        tasks = [task for task in (store._task, store.pager.task) if task is not None]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)
        store.log.failure = store.log.failure or RuntimeError("the machine is off")
        await asyncio.to_thread(store._log_worker.stop)
        await asyncio.to_thread(store._page_worker.stop)
        await asyncio.to_thread(store._read_worker.stop)
        store._unsynced.close()
        store.log.let_go()
        for queue in store.pager.queues.values():
            queue.delta.close()

    async def stop(self):
        """Stop in order."""
        for key, entries in self.unacked.items():
            self.queues[key].requeue(entries)
            entries.clear()
        await self.store.close()

    def check(self, is_exact=False, was_stopped=False):
        """Return what is wrong with the restarted store.

        is_exact: it is as it was before. was_stopped: it was stopped in order, if its disk allowed
        that; it may have confirmed less than it had.
        """
        problems = []
        for key, queue in self.queues.items():
            entries = ready_entries(queue)
            numbers = [number_of(entry) for entry in entries]
            problems += [
                f"queue {key}: {problem}"
                for problem in self._check_queue(key, numbers, entries, is_exact, was_stopped)
            ]
            if len(numbers) != queue.ready_count:
                problems.append(f"queue {key}: counts {queue.ready_count}, has {len(numbers)}")
            heads = [head.position for head in queue.heads()]
            if is_exact and heads != [entry.position for entry in entries[:1]]:
                problems.append(f"queue {key}: its head is said to be at {heads}")
            size = sum(len(entry.message.body) for entry in entries)
            if is_exact and size != queue.ready_bytes:
                problems.append(f"queue {key}: counts {queue.ready_bytes} bytes, has {size}")
        return problems

    def _check_queue(self, key, numbers, entries, is_exact, was_stopped):
        record = self.record
        published, acked = record.published[key], record.acked[key]
        present = set(numbers)
        if numbers != sorted(numbers):
            yield f"out of order: {numbers}"
        if doubles := [number for number, count in Counter(numbers).items() if count > 1]:
            yield f"twice there: {doubles}"
        if strange := present - published.keys():
            yield f"never published: {strange}"
        if transient := [number for number in numbers if not published.get(number)]:
            yield f"not persistent, and still there: {transient}"
        confirmed = {number for target, number in record.confirmed if target == key}
        if missing := confirmed - acked - present:
            yield f"confirmed and missing: {sorted(missing)}"
        flagged = {number_of(entry) for entry in entries if entry.redelivered}
        if not is_exact:
            delivered = record.fetched[key] & present
            # After a crash any message may have been delivered. A node that was stopped knows
            # which, unless it could not write that.
            is_known = was_stopped and flagged == delivered
            if not is_known and (unmarked := present - flagged):
                yield f"not marked as redelivered: {unmarked}; delivered: {delivered}"
            record.fetched[key] |= flagged
        if is_exact:
            wanted = {number for number in published if published[number]} - acked
            if wanted != present:
                yield f"missing {sorted(wanted - present)}, too many {sorted(present - wanted)}"
            if flagged != record.fetched[key] & present:
                yield f"redelivered should be {record.fetched[key] & present}, is {flagged}"
        for entry in entries:
            if not intact(entry.message.body):
                yield f"damaged: {entry}"
            traced = record.traced[number_of(entry)]
            if entry.message.number != traced:
                yield f"its message number was {traced}: {entry}"

    def forget_lost(self):
        """Continue with what the restart found."""
        record = self.record
        for key, queue in self.queues.items():
            entries = ready_entries(queue)
            present = {number_of(entry): True for entry in entries}
            record.published[key] = present
            record.acked[key] = set()
            record.fetched[key] = {number_of(entry) for entry in entries if entry.redelivered}
            record.confirmed = {
                (target, number)
                for target, number in record.confirmed
                if target != key or number in present
            }
            self.unacked[key] = []


def number_of(entry):
    return int(entry.message.body.partition(b":")[0])


def intact(body):
    return not body.partition(b":")[2].strip(b"\0")
