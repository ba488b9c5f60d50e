"""The event stream of a listener: JSON lines, a bounded buffer, and a count of missed events."""

import asyncio
import json

import pytest

from leveret.mgmt.events.event_stream import EventStream, line_of
from tests.patience import PATIENCE_SECONDS


def event(number, **facts):
    return {"event": "queue.created", "timestamp_in_ms": 1, "name": f"q{number}", **facts}


async def taken(stream):
    """Return what is available now."""
    lines = (await stream.take(PATIENCE_SECONDS)).decode().splitlines()
    return [json.loads(line) for line in lines]


def short(events):
    """Return names of queues, and counts of missed events."""
    return [one.get("name", one.get("count")) for one in events]


def test_a_line_is_json_with_tables_as_objects():
    table = {"x-max-length": ("I", 5), "nested": ("F", {"a": ("A", [("S", "ä"), ("t", True)])})}
    line = line_of(event(1, arguments=table, tags=["a"], durable=True, limit=None))
    assert line.endswith(b"}\n")
    assert line.count(b"\n") == 1
    assert json.loads(line) == {
        "event": "queue.created", "timestamp_in_ms": 1, "name": "q1", "tags": ["a"],
        "arguments": {"x-max-length": 5, "nested": {"a": ["ä", True]}}, "durable": True,
        "limit": None,
    }  # fmt: skip


@pytest.mark.parametrize("name", ["a\nb", "\udcff\udc80", "\x00", "🐇"])
def test_any_name_can_be_told(name):
    line = line_of(event(1, routing_key=name, client_properties={name: ("x", b"\xff\n")}))
    assert line.count(b"\n") == 1
    assert json.loads(line)["routing_key"]


async def test_what_waits_is_taken_in_order():
    stream = EventStream()
    for number in range(3):
        stream.add(event(number))
    assert short(await taken(stream)) == ["q0", "q1", "q2"]


async def test_every_waiting_listener_gets_the_events():
    stream = EventStream()
    waiting = asyncio.ensure_future(taken(stream))
    await asyncio.sleep(0)
    stream.add(event(1))
    assert short(await waiting) == ["q1"]


async def test_nothing_comes_in_time():
    assert await EventStream().take(0.001) == b""


async def test_a_slow_listener_is_told_how_many_it_missed_where_they_are_missing():
    stream = EventStream(held_bytes_max=len(line_of(event(0))) * 2)
    for number in range(5):
        stream.add(event(number))
    assert short(await taken(stream)) == ["q0", "q1"]
    stream.add(event(5))
    assert short(await taken(stream)) == [3, "q5"]


async def test_missed_events_are_told_though_nothing_more_happens():
    stream = EventStream(held_bytes_max=1)
    stream.add(event(0))
    stream.add(event(1))
    assert short(await taken(stream)) == ["q0"]
    [missed] = await taken(stream)
    assert (missed["event"], missed["count"]) == ("events.missed", 1)
    assert await stream.take(0.001) == b""


async def test_it_never_holds_much_more_than_it_may():
    stream = EventStream(held_bytes_max=1_000_000)
    for number in range(20_000):
        stream.add(event(number, arguments={"x": ("S", "y" * 1000)}))
    pieces = []
    while piece := await stream.take(0.001):
        pieces.append(piece)
    assert sum(map(len, pieces)) < 1_010_000
    assert max(map(len, pieces)) < 70_000
    events = [json.loads(line) for line in b"".join(pieces).splitlines()]
    assert len(events) - 1 + events[-1]["count"] == 20_000
