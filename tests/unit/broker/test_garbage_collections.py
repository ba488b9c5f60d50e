"""No collection of garbage looks at many objects, however many there are."""

import gc

import pytest

from leveret.broker.resources.garbage_collections import (
    KEPT_MAX,
    SPENT_SECONDS,
    YOUNG_COLLECTIONS,
    YOUNG_MAX,
    YOUNG_SUM,
    YOUNG_SUM_MAX,
    GarbageCollections,
    collect_everything,
)


class Timer:
    """The timer of a loop. look: what it calls. seconds: the process works in between."""

    def __init__(self):
        self.seconds, self.spent = 2 * SPENT_SECONDS, 0.0

    def __call__(self, _seconds, look):
        self.look = look
        return self

    def processor_seconds(self):
        self.spent += self.seconds
        return self.spent

    def cancel(self):
        self.look = None


class Cycle:
    """Garbage that only a collection finds."""

    freed = 0

    def __init__(self):
        self.itself = self

    def __del__(self):
        Cycle.freed += 1


@pytest.fixture(autouse=True)
def _put_aside():
    """What pytest has imported is put aside again (tests/conftest.py): to look at all of it takes
    each later test that collects garbage most of a second.
    """
    yield
    gc.freeze()


@pytest.fixture
def timer():
    """Of collections that have started, driven only by the test."""
    timer = Timer()
    collections = GarbageCollections(timer, timer.processor_seconds)
    collections.start()
    Cycle.freed = 0
    yield timer
    collections.stop()
    assert timer.look is None


@pytest.fixture
def looked_at():
    """How many objects each collection looked at."""
    counts = []

    def note(phase, info):
        if phase == "start":
            young = len(gc.get_objects(0))
            counts.append(young if info["generation"] == 0 else len(gc.get_objects()))

    gc.callbacks.append(note)
    yield counts
    gc.callbacks.remove(note)


def make(count):
    """Objects of the size of a queue's parts."""
    return [[number] for number in range(count)]


def look_at_all(timer):
    """As many objects are made and freed as one look at all objects comes after."""
    for _ in range(YOUNG_COLLECTIONS):
        make(YOUNG_MAX + 1000)
    timer.look()


@pytest.fixture
def limit():
    """The most objects that a collection looks at."""
    return KEPT_MAX + YOUNG_SUM_MAX + YOUNG_MAX


def test_the_objects_that_a_collection_looks_at(timer, looked_at, limit):
    kept = []
    for _ in range(40):
        kept.append(make(YOUNG_MAX))
        timer.look()
    assert len(looked_at) > 40
    assert max(looked_at) < limit


def test_a_node_that_grows_faster_than_the_timer_comes(timer, looked_at, limit):
    kept = make(5 * limit)
    timer.look()
    assert len(looked_at) > 40
    assert max(looked_at) < limit < len(kept)


def test_as_many_objects_are_freed_as_are_made(timer, looked_at, limit):
    old, new = make(5 * limit), []
    timer.look()
    looked_at.clear()
    for number in range(2 * limit):
        # Python counts what is made less what is freed, and does not collect.
        old.pop()
        new.append([number])
        if number % (limit // 8) == 0:
            timer.look()
    timer.look()
    assert max(looked_at, default=0) < limit


def test_objects_are_not_counted_while_the_process_does_little(timer, monkeypatch):
    counts = []
    monkeypatch.setattr(gc, "get_objects", lambda *_: counts.append(1) or [])
    timer.seconds = SPENT_SECONDS / 4
    for _ in range(40):
        timer.look()
    # Once for each of the two youngest generations.
    assert 0 < len(counts) <= 40 / 4 * 2


def test_garbage_is_found_soon(timer):
    cycle = Cycle()
    look_at_all(timer)
    assert not Cycle.freed
    del cycle
    look_at_all(timer)
    assert Cycle.freed == 1


def test_a_node_that_does_not_grow_puts_nothing_aside(timer):
    before = gc.get_freeze_count()
    for _ in range(5):
        look_at_all(timer)
    assert gc.get_freeze_count() <= before


def test_garbage_that_was_put_aside_is_found_when_everything_is_collected(timer):
    cycle = Cycle()
    kept = make(KEPT_MAX + YOUNG_SUM)
    timer.look()
    del cycle
    look_at_all(timer)
    assert not Cycle.freed
    assert collect_everything() >= 1
    assert Cycle.freed == 1
    assert gc.get_freeze_count() > len(kept)


def test_python_collects_again_when_they_are_stopped():
    thresholds = gc.get_threshold()
    collections = GarbageCollections(Timer())
    collections.start()
    assert gc.get_threshold() != thresholds
    collections.stop()
    assert gc.get_threshold() == thresholds
    assert gc.get_freeze_count() == 0
    collect_everything()
    assert gc.get_freeze_count() == 0
