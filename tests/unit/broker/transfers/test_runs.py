"""What runs because of declarations follows them, and ends when its node stops."""

import asyncio

import pytest

from leveret.broker.moving.transfers.runs import RunningByPlace

PLACE = "place"


class Thing:
    """One that runs from `start` until it may end. stops: how many have asked it to."""

    def __init__(self):
        self.stops = 0
        self.may_end = asyncio.Event()
        self._task = None

    def start(self):
        self._task = asyncio.create_task(self.may_end.wait())

    async def stop(self):
        self.stops += 1
        await asyncio.wait((self._task,))

    @property
    def runs(self):
        return not self._task.done()


class Fixture:
    """Runs whose declarations ask for one thing at one place. made: those that were, in order."""

    def __init__(self):
        self.made = []
        self.runs = RunningByPlace(self._make, self._stop)
        self.runs.start()

    def _make(self, place):
        self.made.append(Thing())
        return self.made[-1]

    async def _stop(self, place, thing):
        await thing.stop()

    async def change(self):
        """Change the declarations of the place."""
        self.runs.follow([PLACE])
        await turns()


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


@pytest.fixture
async def fixture():
    fixture = Fixture()
    await fixture.change()
    return fixture


async def test_the_next_thing_starts_when_the_one_before_has_ended(fixture):
    (first,) = fixture.made
    await fixture.change()
    assert (first.stops, fixture.made) == (1, [first])
    first.may_end.set()
    await asyncio.gather(*fixture.runs._following.values())
    first, second = fixture.made
    assert (first.runs, second.runs) == (False, True)
    second.may_end.set()
    await fixture.runs.stop()


async def test_stopping_waits_for_what_ends_because_of_a_change(fixture):
    (thing,) = fixture.made
    await fixture.change()
    stopping = asyncio.create_task(fixture.runs.stop())
    await turns()
    assert not stopping.done()
    thing.may_end.set()
    await stopping
    assert not thing.runs
    assert (thing.stops, fixture.made) == (1, [thing])


async def test_a_change_just_before_stopping_starts_nothing():
    fixture = Fixture()
    fixture.runs.follow([PLACE])
    await fixture.runs.stop()
    assert fixture.made == []
    fixture.runs.follow([PLACE])
    assert not fixture.runs._following
