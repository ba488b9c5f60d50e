"""Requests between nodes, over links that pass frames on at once."""

import asyncio
import logging

import pytest

from leveret.cluster.membership.members import MembershipRefused
from leveret.cluster.rpc import rpc
from leveret.cluster.rpc.rpc import ANSWERING_MAX, HEAD, NotAnswered
from tests.linked_rpc import linked


async def echo(node, text):
    return node.encode() + b": " + text


async def never(node, text):
    await asyncio.Event().wait()


async def failing(node, text):
    raise ValueError("the queue is gone")


async def test_an_answer_comes_back():
    a, b, _, _ = linked()
    b.answer("echo", echo)
    assert await a.ask("b", "echo", b"hello", 60) == b"a: hello"
    assert a.nodes == ("b",)


async def test_a_node_that_is_working_on_the_answer_is_waited_for(monkeypatch):
    monkeypatch.setattr(rpc, "WORKING_SECONDS", 0.001)
    a, b, _, to_a = linked()
    gate = asyncio.Event()

    async def gated(node, text):
        await gate.wait()
        return text

    b.answer("gated", gated)
    asking = asyncio.ensure_future(a.ask("b", "gated", b"1", 60, silence_seconds_max=0.02))
    while len(to_a.sent) < 60:
        assert not asking.done()
        await asyncio.sleep(0)
    gate.set()
    assert await asking == b"1"
    assert to_a.sent[0][0] == rpc.WORKING
    assert to_a.sent[-1][0] == rpc.ANSWER


async def test_a_node_that_is_silent_is_not_waited_for():
    a, _, to_b, _ = linked()
    to_b.other_end = None
    with pytest.raises(NotAnswered, match="did not answer within 0.001 s"):
        await a.ask("b", "echo", b"", 60, silence_seconds_max=0.001)


async def test_answers_come_in_any_order():
    a, b, _, _ = linked()
    gates = {b"1": asyncio.Event(), b"2": asyncio.Event()}

    async def gated(node, text):
        await gates[text].wait()
        return text

    b.answer("gated", gated)
    first = asyncio.ensure_future(a.ask("b", "gated", b"1", 60))
    second = asyncio.ensure_future(a.ask("b", "gated", b"2", 60))
    gates[b"2"].set()
    assert await second == b"2"
    gates[b"1"].set()
    assert await first == b"1"


async def test_a_node_without_a_link_is_not_asked():
    a, _, _, _ = linked()
    with pytest.raises(NotAnswered, match="node c is not connected"):
        await a.ask("c", "echo", b"", 60)


async def test_a_request_has_a_time_limit():
    a, b, _, _ = linked()
    b.answer("never", never)
    with pytest.raises(NotAnswered, match="did not answer within 0 s"):
        await a.ask("b", "never", b"", 0)


async def test_an_error_is_told(caplog):
    a, b, _, _ = linked()
    b.answer("failing", failing)
    with pytest.raises(NotAnswered, match="the queue is gone"):
        await a.ask("b", "failing", b"", 60)
    assert caplog.records[0].exc_info
    with pytest.raises(NotAnswered, match="does not answer requests about weather"):
        await a.ask("b", "weather", b"", 60)


@pytest.mark.parametrize("refusal", [MembershipRefused("too late"), NotAnswered("too late")])
async def test_a_refusal_is_told_and_is_one_line_of_the_log(caplog, refusal):
    async def refusing(node, text):
        raise refusal

    caplog.set_level(logging.DEBUG, "leveret.cluster")
    a, b, _, _ = linked()
    b.answer("refusing", refusing)
    with pytest.raises(NotAnswered, match="too late"):
        await a.ask("b", "refusing", b"", 60)
    (line,) = caplog.records
    assert line.getMessage() == "refused a request of node a: too late"
    assert (line.levelno, line.exc_info) == (logging.INFO, None)


async def test_a_link_that_ends_ends_its_requests():
    a, b, to_b, to_a = linked()
    b.answer("never", never)
    asked = asyncio.ensure_future(a.ask("b", "never", b"", 60))
    while not to_b.sent:
        await asyncio.sleep(0)
    a.peer_down(to_b, "no tick came")
    with pytest.raises(NotAnswered, match="no tick came"):
        await asked
    b.peer_down(to_a, "no tick came")
    assert a.nodes == ()


async def test_a_node_limits_the_requests_it_answers_at_a_time(caplog):
    _, b, _, to_a = linked()
    b.answer("never", never)
    to_a.other_end = None
    for number in range(ANSWERING_MAX + 1):
        b.received(to_a, HEAD.pack(1, number) + b"\x05never")
    assert to_a.sent == [HEAD.pack(3, ANSWERING_MAX) + b"1000 requests are being answered already"]
    await asyncio.sleep(0)
    b.peer_down(to_a, "the test is over")


@pytest.mark.parametrize(
    "frame", [b"", HEAD.pack(1, 1), HEAD.pack(1, 1) + b"\x05ev", HEAD.pack(9, 1)]
)
async def test_a_damaged_frame_ends_the_link(frame):
    _, b, _, to_a = linked()
    with pytest.raises(ValueError):
        b.received(to_a, frame)


async def test_an_answer_to_nothing_is_ignored():
    a, _, to_b, _ = linked()
    a.received(to_b, HEAD.pack(2, 77) + b"late")
