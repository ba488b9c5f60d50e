"""Nodes link, send, lose and renew their links: real sockets on the loopback interface."""

import asyncio

import uvloop

from tests.unit.cluster.links.fakes import linked, nodes, until


async def test_two_nodes_send_each_other_frames_in_order():
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        for number in range(1000):
            a.send(b, b"frame ", b"%d" % number)
            b.send(a, b"%d" % number)
        await until(lambda: len(a.service.received_payloads) == 1000)
        await until(lambda: len(b.service.received_payloads) == 1000)
        assert b.service.received_payloads == [b"frame %d" % number for number in range(1000)]
        assert a.service.received_payloads == [b"%d" % number for number in range(1000)]


async def test_a_frame_of_many_megabytes_arrives_between_small_ones():
    large = bytes(range(256)) * 40_000
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        for payload in (b"before", large, b"", b"after"):
            a.send(b, payload)
        await until(lambda: len(b.service.received_payloads) == 4)
        assert b.service.received_payloads == [b"before", large, b"", b"after"]


async def test_nodes_that_dial_each_other_at_once_have_one_link():
    async with nodes("a", "b", "c", "d") as made:
        for one in made:
            for other in made:
                if other is not one:
                    one.dial(other)
        for one in made:
            await until(lambda one=one: len(one.service.up) == 3)
        for one in made:
            assert [call[0] for call in one.service.calls] == ["up"] * 3


async def test_a_link_that_breaks_is_made_again():
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        b.links.drop(a.name, "a test")
        assert b.service.calls[-1] == ("down", a.name, "a test")
        await until(lambda: [call[0] for call in a.service.calls] == ["up", "down", "up"])
        await linked(a, b)
        a.send(b, b"hello again")
        await until(lambda: b.service.received_payloads == [b"hello again"])


async def test_a_forgotten_node_is_not_dialled_again():
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        a.links.forget(b.name, "it was removed from the cluster")
        await until(lambda: not b.service.up)
        assert a.links.dialler_of(b.name) is None


async def test_what_was_sent_before_a_stop_arrives():
    large = b"x" * 10_000_000
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        a.send(b, large)
        a.send(b, b"goodbye")
        await a.links.stop()
        assert a.service.calls[-1] == ("down", b.name, "this node stops")
        await until(lambda: b.service.calls[-1][0] == "down")
        assert b.service.received_payloads == [large, b"goodbye"]


def test_on_uvloop():
    """`leveret serve` runs on it, and its transports are not asyncio's."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_two_nodes_send_each_other_frames_in_order())
        runner.run(test_nodes_that_dial_each_other_at_once_have_one_link())
        runner.run(test_what_was_sent_before_a_stop_arrives())
