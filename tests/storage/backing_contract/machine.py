"""Any calls in any order, and the model says what must come of them."""

from typing import ClassVar
from unittest.mock import patch

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from leveret.broker.amqp.content_header import ContentHeader, read_header
from leveret.broker.amqp.properties import encode_properties
from leveret.storage.contract.backing_queue import Cursor
from leveret.storage.messages.message import Address, Message
from leveret.storage.messages.message_run import run_of
from leveret.storage.segments import ledger, segments
from tests.storage.backing_contract.implementations import PRIORITY_MAX, Implementation
from tests.storage.backing_contract.model import Held, Model, bytes_of, memory_bytes
from tests.storage.reading import ready_entries

ADDRESS = Address("x", "key", b"\1x\3key")
SEGMENT_POSITIONS = 16
"""Small segments, so that a queue has several."""
NUMBERED_FROM = 7_000_000


def header_of(priority: int, is_persistent: bool) -> ContentHeader:
    properties = {"delivery_mode": 2 if is_persistent else 1, "priority": priority}
    return read_header(encode_properties(properties))


HEADERS = {
    (priority, is_persistent): header_of(priority, is_persistent)
    for priority in range(PRIORITY_MAX + 2)
    for is_persistent in (False, True)
}


class BackingQueueMachine(RuleBasedStateMachine):
    """A backing queue and its model. Subclasses say which implementation it is."""

    make_implementation: ClassVar[type[Implementation]]

    def __init__(self) -> None:
        super().__init__()
        self._patches = [
            patch.object(module, "SEGMENT_POSITIONS", SEGMENT_POSITIONS)
            for module in (ledger, segments)
        ]
        for one in self._patches:
            one.start()
        self.implementation = self.make_implementation()
        self.queue = self.implementation.make()
        self.model = Model()
        self.published = 0
        self.next_positions: dict[int, int] = {}
        self.cursor: Cursor | None = None
        self.cursor_passed = -1

    @initialize()
    def begin(self) -> None:
        assert self.queue.ready_count == self.queue.unacked_count == 0

    def do(self, action):
        return self.implementation.do(action)

    def place_of(self, priority: int, position: int) -> int:
        if not self.implementation.has_priorities:
            return position
        return ((PRIORITY_MAX - priority) << 48) + position

    # Rules

    @rule(
        sizes=st.lists(st.integers(0, 60), min_size=1, max_size=8),
        priority=st.integers(0, PRIORITY_MAX + 1),
        is_persistent=st.booleans(),
        expires_at_ms=st.sampled_from((0, 0, 2_000_000)),
        is_numbered=st.booleans(),
        has_own_times=st.booleans(),
    )
    def publish(self, sizes, priority, is_persistent, expires_at_ms, is_numbered, has_own_times):
        level = min(priority, PRIORITY_MAX) if self.implementation.has_priorities else 0
        position = self.next_positions.get(level, 0)
        numbers = range(self.published, self.published + len(sizes))
        self.published += len(sizes)
        messages, times = [], []
        header = HEADERS[priority, is_persistent]
        for number, size in zip(numbers, sizes, strict=True):
            if has_own_times and expires_at_ms:
                header = header_of(priority, is_persistent)
                expires_at_ms += 1
            times.append(expires_at_ms)
            body = b"%d:" % number + bytes(size)
            named = NUMBERED_FROM + number if is_numbered else 0
            messages.append(Message(ADDRESS, header, body, None, named))
            held = Held(level, position, body, named, is_persistent, expires_at_ms)
            self.model.ready[self.place_of(level, position)] = held
            position += 1
        self.next_positions[level] = position
        if has_own_times and expires_at_ms:
            self.do(lambda: self.queue.publish_each(run_of(messages), times))
        else:
            self.do(lambda: self.queue.publish(run_of(messages), expires_at_ms))

    @rule(priority=st.integers(0, PRIORITY_MAX + 1), left_out=st.integers(0, 2 * SEGMENT_POSITIONS))
    def go_on_at(self, priority, left_out):
        level = min(priority, PRIORITY_MAX) if self.implementation.has_priorities else 0
        position = self.next_positions.get(level, 0) + left_out
        self.next_positions[level] = position
        place, message = (
            self.place_of(level, position),
            Message(ADDRESS, HEADERS[priority, True], b""),
        )
        self.do(lambda: self.queue.go_on_at(place))
        assert self.queue.next_position_of(message) == position

    @rule(count=st.integers(0, 12), ack_required=st.booleans())
    def fetch(self, count, ack_required):
        entries = self.do(lambda: self.queue.fetch(count, ack_required))
        taken = self.model.take_first(count)
        self.check(entries, taken)
        if ack_required:
            self.keep(entries, taken)

    def check(self, entries, expected):
        assert [self.queue.position_of(entry) for entry in entries] == list(expected)
        for entry, (place, held) in zip(entries, expected.items(), strict=True):
            self.model.check(entry, place, held)

    def keep(self, entries, taken):
        """Entries that are unacked now."""
        self.entries.update((self.queue.position_of(entry), entry) for entry in entries)
        self.model.unacked.update(taken)

    @property
    def entries(self):
        return self.__dict__.setdefault("_entries", {})

    def chosen(self, data):
        """Some of the unacked, in any order."""
        return data.draw(st.lists(st.sampled_from(sorted(self.model.unacked)), unique=True))

    @precondition(lambda self: self.model.unacked)
    @rule(data=st.data())
    def ack(self, data):
        places = self.chosen(data)
        entries = [self.entries.pop(place) for place in places]
        self.do(lambda: self.queue.ack(entries))
        for place in places:
            del self.model.unacked[place]

    @precondition(lambda self: self.model.unacked)
    @rule(data=st.data())
    def requeue(self, data):
        places = self.chosen(data)
        taken = [place for place in places if self.model.unacked[place].was_taken]
        fetched = [place for place in places if place not in taken]
        self.put_back(taken, redelivered=False)
        self.put_back(fetched, redelivered=True)

    def put_back(self, places, redelivered):
        entries = [self.entries.pop(place) for place in places]
        self.do(lambda: self.queue.requeue(entries, redelivered))
        self.model.requeue(places, redelivered)

    @rule()
    def drop(self):
        entry = self.do(self.queue.drop)
        self.check([entry] if entry is not None else [], self.model.take_first(1))

    @precondition(lambda self: self.model.ready)
    @rule(data=st.data())
    def take(self, data):
        anywhere = st.sampled_from(sorted({**self.model.ready, **self.model.unacked}))
        places = sorted(data.draw(st.sets(anywhere, min_size=1, max_size=5)))
        found = {self.queue.position_of(entry): entry for entry in ready_entries(self.queue)}
        found |= self.entries
        if data.draw(st.booleans()):
            entries = self.do(lambda: self.queue.take([found[place] for place in places]))
        else:
            entries = self.do(lambda: self.queue.take_at(places))
        taken = {
            place: self.model.ready.pop(place) for place in places if place in self.model.ready
        }
        self.check(entries, taken)
        for held in taken.values():
            held.was_taken = True
        self.keep(entries, taken)

    @rule(priority=st.integers(0, PRIORITY_MAX), first=st.integers(0, 40), count=st.integers(1, 40))
    def ready_between(self, priority, first, count):
        start = self.place_of(priority, first)
        found = self.queue.ready_between(start, start + count)
        expected = {
            place: self.model.ready[place]
            for place in self.model.in_order()
            if start <= place < start + count
        }
        if found is None:
            assert self.implementation.has_disk
            assert self.queue.counts().paged_out
        else:
            self.check(sorted(found, key=self.queue.position_of), expected)

    @rule(is_loose=st.booleans())
    def set_loose(self, is_loose):
        self.queue.set_loose(is_loose)

    @rule()
    def purge(self):
        assert self.do(self.queue.purge).dropped == len(self.model.ready)
        self.model.ready.clear()

    @rule()
    def peek(self):
        entry = self.do(self.queue.peek)
        first = self.model.in_order()[:1]
        self.check([entry] if entry is not None else [], {p: self.model.ready[p] for p in first})

    @rule(count=st.integers(1, 12))
    def fetchable(self, count):
        found = self.do(lambda: self.queue.fetchable(count))
        assert min(1, len(self.model.ready)) <= found <= min(count, len(self.model.ready))

    @rule(count=st.integers(1, 12), now_ms=st.sampled_from((1_000_000, 3_000_000)))
    def unexpired(self, count, now_ms):
        found = self.do(lambda: self.queue.unexpired(count, now_ms))
        held = [self.model.ready[place] for place in self.model.in_order()[:count]]
        have_expired = [0 < one.expires_at_ms < now_ms for one in held]
        assert not any(have_expired[:found])
        assert (found > 0) == (have_expired[:1] == [False])

    @rule(is_lazy=st.booleans())
    def set_lazy(self, is_lazy):
        self.do(lambda: self.queue.set_lazy(is_lazy))

    @precondition(lambda self: self.implementation.has_disk)
    @rule(bytes_max=st.sampled_from((0, 1, 1_000, 1_000_000)), writes=st.booleans())
    def page_out(self, bytes_max, writes):
        self.implementation.page_out(bytes_max, writes)

    @rule(data=st.data())
    def open_cursor(self, data):
        place = data.draw(st.sampled_from([0, *self.model.ready]))
        self.close_cursor()
        self.cursor = self.queue.cursor(place)
        self.cursor_passed = place - 1

    @precondition(lambda self: self.cursor is not None)
    @rule(bytes_max=st.sampled_from((0, 1, 500, 1_000, 100_000)))
    def read_cursor(self, bytes_max):
        begin = self.cursor.position
        assert begin > self.cursor_passed
        entries = self.do(lambda: self.cursor.read(bytes_max))
        expected = self.model.in_order(begin)
        assert bool(entries) == bool(expected)
        self.check(entries, {place: self.model.ready[place] for place in expected[: len(entries)]})
        assert not entries or memory_bytes(entries[:-1]) < max(1, bytes_max)
        if entries:
            self.cursor_passed = self.queue.position_of(entries[-1])

    def close_cursor(self):
        if self.cursor is not None:
            self.cursor.close()
        self.cursor = None

    @precondition(lambda self: self.implementation.is_durable)
    @rule()
    def restart(self):
        self.close_cursor()
        self.entries.clear()
        self.queue = self.implementation.restart()
        self.model.restart()
        # Positions of messages that were not persistent may be given again.
        for priority in self.next_positions:
            self.next_positions[priority] = self.implementation.next_position(priority)
        for held in self.model.ready.values():
            assert held.position < self.next_positions[held.priority]

    # Invariants

    @invariant()
    def given_positions(self):
        given = {start: end for start, end in self.queue.given_positions() if start < end}
        ends = {
            self.place_of(level, 0): self.place_of(level, position)
            for level, position in self.next_positions.items()
            if position
        }
        assert given == ends

    @invariant()
    def counts(self):
        queue, model = self.queue, self.model
        assert (queue.ready_count, queue.unacked_count) == (len(model.ready), len(model.unacked))
        assert queue.ready_bytes == bytes_of(model.ready)
        assert queue.unacked_bytes == bytes_of(model.unacked)
        if not queue.has_expiring:
            assert not any(held.expires_at_ms for held in model.ready.values())

    @invariant()
    def heads(self):
        first = {}
        for place in self.model.in_order():
            held = self.model.ready[place]
            first.setdefault(held.priority, held.position)
        heads = self.queue.heads()
        assert [(head.priority, head.position) for head in heads] == list(first.items())
        assert all(head.entry is None or head.entry.position == head.position for head in heads)
        assert self.queue.firsts() == [self.place_of(*one) for one in first.items()]

    @invariant()
    def status(self):
        counts, model = self.queue.counts(), self.model
        assert counts.ready_bytes == bytes_of(model.ready)
        assert counts.unacked_bytes == bytes_of(model.unacked)
        assert counts.paged_out + counts.ready_ram == len(model.ready)
        assert self.queue.status()["len"] == len(model.ready)

    def teardown(self):
        self.read_everything()
        self.close_cursor()
        self.do(self.queue.delete)
        assert self.queue.ready_count == 0
        self.implementation.close()
        for one in self._patches:
            one.stop()

    def read_everything(self):
        cursor = self.queue.cursor()
        places = []
        while entries := self.do(lambda: cursor.read(700)):
            places += [self.queue.position_of(entry) for entry in entries]
        cursor.close()
        assert places == self.model.in_order()
