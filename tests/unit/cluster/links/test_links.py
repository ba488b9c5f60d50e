"""Nodes link, send, lose and renew their links: real sockets on the loopback interface."""

import asyncio
from collections import Counter

import pytest
import uvloop

from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.links import link
from leveret.cluster.links.addresses import AddressBook
from leveret.cluster.links.compression import DEFLATE, readable_methods
from leveret.cluster.links.link import PIECE_OCTETS
from tests.ports import free_ports
from tests.unit.cluster.links.fakes import (
    SERVICE,
    LinkedNode,
    RecordingService,
    check_a_stop_while_the_other_sends,
    linked,
    nodes,
    until,
)


class Transport:
    """A transport that remembers what is written."""

    def __init__(self, writes):
        self._writes = writes

    def write(self, data):
        self._writes.append(data)


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


async def test_the_features_of_a_node_that_is_down_are_known():
    features = frozenset(("a feature",))
    async with nodes("a", "b", identity={"features": features}) as (a, b):
        a.dial(b)
        await linked(a, b)
        await b.links.stop()
        await until(lambda: not a.service.up)
        assert a.links.features == {b.name: features}


async def test_a_forgotten_node_is_not_dialled_again():
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        a.links.forget(b.name, "it was removed from the cluster")
        await until(lambda: not b.service.up)
        assert a.links.dialler_of(b.name) is None
        assert a.links.features == {}


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


async def test_what_was_sent_before_a_stop_arrives_while_the_other_sends():
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await check_a_stop_while_the_other_sends(a, b)


async def test_two_nodes_stop_at_once(caplog):
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        a.send(b, b"goodbye")
        b.send(a, b"goodbye")
        await asyncio.gather(a.links.stop(), b.links.stop())
        for one, other in ((a, b), (b, a)):
            assert one.service.calls[-1] == ("down", other.name, "this node stops")
    assert "did not take" not in caplog.text


async def test_a_stop_waits_for_what_was_sent_on_a_link_that_was_made_again():
    large = b"x" * 10_000_000
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        a.links.drop(b.name, "a test")
        await until(lambda: len(b.service.calls) == 3)
        await linked(a, b)
        a.send(b, large)
        await a.links.stop()
        await until(lambda: not b.service.up)
        assert b.service.received_payloads == [large]


async def test_large_pieces_are_written_as_they_are_and_in_order():
    large = bytes(PIECE_OCTETS)
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        link, writes = a.service.up[b.name], []
        transport, link._transport = link._transport, Transport(writes)
        a.send(b, b"one", large, b"two", large)
        a.send(b, b"three")
        await until(lambda: link.unsent_octets == 0)
        assert [len(one) for one in writes] == [8, PIECE_OCTETS, 3, PIECE_OCTETS, 10]
        assert writes[1] is large
        link._transport = transport


async def test_links_that_break_at_once_are_dialled_with_pauses(caplog):
    """As when one node always sends what the other cannot handle."""
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        for count in range(1, 5):
            await until(lambda count=count: len(a.service.calls) == 2 * count - 1)
            a.links.drop(b.name, "a test")
        assert a.links.dialler_of(b.name).failures == 4


async def test_a_node_that_stays_away_is_logged_once(caplog):
    (unused,) = free_ports(1)
    async with nodes("a") as (a,):
        a.links.dial(NodeAddress("b@127.0.0.1", unused))
        await until(lambda: a.links.dialler_of("b@127.0.0.1").failures == 4)
        assert caplog.text.count("no link with b@127.0.0.1") == 1
        assert "it cannot be reached: Connection refused" in caplog.text
        problem = a.links.problem_with("b@127.0.0.1")
        assert problem.startswith(f"b@127.0.0.1 at 127.0.0.1:{unused}: it cannot be reached")


async def test_frames_of_one_turn_are_one_write():
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        link, writes = a.service.up[b.name], []
        transport, link._transport = link._transport, Transport(writes)
        for _ in range(100):
            a.send(b, b"one")
        await until(lambda: writes)
        assert len(writes) == 1
        assert writes[0].count(b"one") == 100
        link._transport = transport


async def test_a_link_that_is_down_takes_nothing():
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        peer = a.service.up[b.name]
        a.links.forget(b.name, "a test")
        peer.send(SERVICE, b"into the void")
        assert peer.unsent_octets == 0


async def test_services_hear_of_a_peer_in_the_order_of_their_numbers_and_an_error_harms_no_other(
    caplog,
):
    calls = []

    class Failing(RecordingService):
        def peer_up(self, peer):
            calls.append("failing")
            raise RuntimeError("a fault of the service")

    class Other(RecordingService):
        def peer_up(self, peer):
            calls.append("other")

        def peer_down(self, peer, reason):
            calls.append("down")

    async with nodes("b") as (b,):
        a = LinkedNode("a@127.0.0.1")
        a.links.register(5, Other())
        a.links.register(4, Failing())
        await a.links.start()
        a.dial(b)
        await linked(a, b)
        assert calls == ["failing", "other"]
        assert "a fault of the service" in caplog.text
        await a.links.stop()
        assert calls == ["failing", "other", "down"]


async def test_a_service_that_drops_a_peer_when_it_comes_hears_that_it_is_down():
    class Dropping(RecordingService):
        def peer_up(self, peer):
            super().peer_up(peer)
            node.links.drop(peer.name, "not wanted")

    async with nodes("b") as (b,):
        node = LinkedNode("a@127.0.0.1")
        first, second = Dropping(), RecordingService()
        node.links.register(2, first)
        node.links.register(3, second)
        await node.links.start()
        b.dial(node)
        await until(lambda: len(first.calls) >= 4)
        assert [call[0] for call in first.calls[:4]] == ["up", "down"] * 2
        assert second.calls == []
        await node.links.stop()


@pytest.mark.parametrize("compression", readable_methods())
async def test_frames_are_compressed_by_the_method_of_the_sender(compression):
    text = b"a text that repeats itself, " * 1000
    async with nodes("b", identity={"compressions": (DEFLATE,)}) as (b,):
        wish = {"compression": compression, "compressions": readable_methods()}
        async with nodes("a", "c", identity=wish) as (a, c):
            for other in (b, c):
                a.dial(other)
                await linked(a, other)
                a.send(other, text)
                other.send(a, text)
                await until(lambda other=other: other.service.received_payloads == [text])
                # b has no method for what it sends, and it reads what a sends by deflate.
                is_small = other.service.up[a.name].sent_octets < len(text)
                assert is_small == (other is c)
                assert a.service.up[other.name].sent_octets < len(text)
            await until(lambda: a.service.received_payloads == [text, text])


# Addresses


async def test_nodes_learn_the_ports_of_others_from_each_other(tmp_path):
    async with nodes("a", "b", directory=tmp_path) as (a, b), nodes("c") as (c,):
        a.dial(b)
        await linked(a, b)
        c.dial(a)
        await linked(a, c)
        # c knows nothing of b but its name, and b nothing of c.
        await until(lambda: b.name in c.links.known_addresses)
        c.links.dial(b.name)
        await linked(c, b)
        await until(lambda: c.name in b.links.known_addresses)


async def test_a_node_that_returns_with_another_port_is_found(tmp_path):
    a = LinkedNode("a@127.0.0.1", directory=tmp_path)
    await a.links.start()
    async with nodes("b", "c") as (b, c):
        for other in (b, c):
            a.dial(other)
            await linked(a, other)
        c.dial(b)
        await linked(c, b)
        c.links.drop(b.name, "a test")
    async with nodes("b", "c") as (b, c):
        # b dials a; c learns of its new port from a.
        b.dial(a)
        c.dial(a)
        await linked(a, b)
        await linked(a, c)
        await until(lambda: c.links.known_addresses.get(b.name) == b.links.port)
        await a.links.stop()
    assert AddressBook(tmp_path).port_of(b.name) == b.links.port


async def test_a_node_that_is_told_a_new_address_is_dialled_there_at_once():
    async with nodes("a", "b") as (a, b):
        (unused,) = free_ports(1)
        a.links.dial(NodeAddress(b.name, unused))
        a.dial(b)
        await linked(a, b)


def test_on_uvloop():
    """`leveret serve` runs on it, and its transports are not asyncio's."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(test_two_nodes_send_each_other_frames_in_order())
        runner.run(test_nodes_that_dial_each_other_at_once_have_one_link())
        runner.run(test_what_was_sent_before_a_stop_arrives())
        runner.run(test_what_was_sent_before_a_stop_arrives_while_the_other_sends())


async def test_a_turn_decompresses_a_few_frames_and_leaves_the_rest_for_the_next(monkeypatch):
    """Hundreds of them come with one read if they are as small as those of equal octets."""
    monkeypatch.setattr(link, "DECOMPRESSED_A_TURN", 100_000)
    payloads = [bytes((number,)) * 60_000 for number in range(50)]
    turn, turns = 0, []

    async def count_turns():
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    both = {"compression": DEFLATE, "compressions": (DEFLATE,)}
    async with nodes("a", "b", identity=both) as (a, b):
        counting = asyncio.create_task(count_turns())
        a.dial(b)
        await linked(a, b)
        keep, b.service.received = b.service.received, lambda *call: turns.append((turn, call))
        for payload in (*payloads, b"not compressed"):
            a.send(b, payload)
        await until(lambda: len(turns) > len(payloads))
        b.service.received = keep
        counting.cancel()
        assert [payload for _, (_, payload) in turns] == [*payloads, b"not compressed"]
        assert max(Counter(number for number, _ in turns).values()) <= 3
        a.send(b, b"it is read on")
        await until(lambda: b.service.received_payloads == [b"it is read on"])


async def test_frames_that_wait_for_their_turn_go_with_the_link(monkeypatch):
    monkeypatch.setattr(link, "DECOMPRESSED_A_TURN", 1)
    both = {"compression": DEFLATE, "compressions": (DEFLATE,)}
    async with nodes("a", "b", identity=both) as (a, b):
        a.dial(b)
        await linked(a, b)

        def received(peer, payload):
            calls.append(payload)
            peer.drop("a test")

        calls, b.service.received = [], received
        for _ in range(10):
            a.send(b, bytes(60_000))
        await until(lambda: [call[0] for call in b.service.calls] == ["up", "down", "up"])
        assert calls == [bytes(60_000)]
