"""Who connects to the link port and is no node of the cluster is dropped, with a line in the log.

The nodes that are linked are not harmed by it.
"""

import asyncio
import logging
from contextlib import asynccontextmanager

import pytest

from leveret.broker.runtime.log_limit import LINES_A_MINUTE
from leveret.broker.runtime.node_address import NodeAddress
from leveret.broker.runtime.virtual_clock import VirtualClock
from leveret.cluster.links.admission import UNFINISHED_MAX
from leveret.cluster.links.frames import HEADER, header_of
from leveret.cluster.links.handshake import MAGIC, NONCE_OCTETS, Handshake
from leveret.cluster.links.handshake_connection import LIMIT_MS
from leveret.cluster.links.hello import NodeIdentity
from leveret.cluster.links.one_link import PROBE_MS
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port
from tests.unit.cluster.links.fakes import (
    COOKIE,
    LinkedNode,
    linked,
    linked_by_proxy,
    nodes,
    until,
)


@asynccontextmanager
async def connected(node):
    """A program that connects to the port of a node."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.links.port)
    try:
        yield reader, writer
    finally:
        writer.close()


async def rest_of(reader):
    """What comes until the node closes the connection."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""


@asynccontextmanager
async def started(name, **options):
    node = LinkedNode(name, **options)
    await node.links.start()
    try:
        yield node
    finally:
        await node.links.stop()


def lines(caplog, text):
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


# Programs that are no nodes


async def test_a_program_of_another_protocol_is_dropped_at_once(caplog):
    async with nodes("a") as (a,):
        async with connected(a) as (reader, writer):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert await rest_of(reader) == b""
        (line,) = lines(caplog, "no link with 127.0.0.1:")
        assert (
            "does not speak the protocol between Leveret nodes: connect clients to their own port"
            in line
        )


async def test_a_port_scan_makes_few_lines(caplog):
    async with nodes("a") as (a,):
        for _ in range(20):
            async with connected(a):
                pass
        await until(lambda: not a.links.admission.unfinished)
        assert len(lines(caplog, "closed the connection in the handshake")) == LINES_A_MINUTE


async def test_a_node_that_is_dialled_gives_its_own_attempt_up_without_a_line(caplog):
    async with nodes("a", "b") as (a, b):
        a.links.dial(NodeAddress(b.name, free_port()))
        for name, count in ((b.name, 0), ("c@127.0.0.1", 1)):
            hello = Handshake(NodeIdentity(name, 1), COOKIE, bytes(NONCE_OCTETS), a.name).start()
            async with connected(a) as (reader, writer):
                writer.write(hello[0].data)
                assert await reader.readexactly(len(MAGIC)) == MAGIC
            await until(lambda: not a.links.admission.unfinished)
            assert len(lines(caplog, "closed the connection in the handshake")) == count


async def test_a_handshake_that_is_not_finished_in_time_is_dropped(caplog):
    clock = VirtualClock()
    async with nodes("a", clock=clock) as (a,), connected(a) as (reader, writer):
        writer.write(MAGIC + header_of(1, 500))
        await until(lambda: a.links.admission.unfinished == 1)
        clock.advance(LIMIT_MS / 1000)
        assert await rest_of(reader) == b""
        assert lines(caplog, "did not finish the handshake in 5 s")


async def test_many_unfinished_handshakes_do_not_keep_a_node_out(caplog):
    async with nodes("a", "b") as (a, b):
        idle = [
            await asyncio.open_connection("127.0.0.1", a.links.port)
            for _ in range(UNFINISHED_MAX + 20)
        ]
        await until(lambda: a.links.admission.unfinished == UNFINISHED_MAX)
        b.dial(a)
        await linked(a, b)
        assert lines(caplog, f"more than {UNFINISHED_MAX} connections are in their handshake")
        for _, writer in idle:
            writer.close()


# Attackers without the cookie


async def test_a_recorded_handshake_cannot_be_replayed(caplog):
    async with nodes("a", "b") as (a, b), linked_by_proxy(b, a) as proxy:
        recorded = bytes(proxy.passed)
        b.links.forget(a.name, "a test")
        await until(lambda: not a.service.up)
        async with connected(a) as (reader, writer):
            writer.write(recorded)
            answer = await rest_of(reader)
        assert answer.startswith(MAGIC)
        assert lines(caplog, "it says that it is node b@127.0.0.1, but its cookie is not the one")
        assert [call[0] for call in a.service.calls] == ["up", "down"]


async def test_a_program_that_sends_everything_back_is_no_node(caplog):
    async def send_back(reader, writer):
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    async with nodes("a") as (a,):
        server = await asyncio.start_server(send_back, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        a.links.dial(NodeAddress("b@127.0.0.1", port))
        await until(lambda: a.links.problem_with("b@127.0.0.1"))
        assert "the address is that of this node itself" in a.links.problem_with("b@127.0.0.1")
        a.links.forget("b@127.0.0.1", "a test")
        server.close()


async def test_a_handshake_that_is_cut_off_anywhere_leaves_nothing_behind():
    async with nodes("a", "b") as (a, b), linked_by_proxy(b, a) as proxy:
        recorded = bytes(proxy.passed)
        for length in range(0, len(recorded), 5):
            async with connected(a) as (_, writer):
                writer.write(recorded[:length])
        await until(lambda: not a.links.admission.unfinished)
        a.send(b, b"still here")
        await until(lambda: b.service.received_payloads == [b"still here"])


# Nodes that do not belong here


async def test_a_node_with_another_cookie_is_refused_with_a_line_on_both_sides(caplog):
    async with nodes("a") as (a,), started("b@127.0.0.1", cookie=b"another") as b:
        b.dial(a)
        await until(lambda: lines(caplog, "node a@127.0.0.1 has another cookie"))
        assert lines(caplog, "it says that it is node b@127.0.0.1, but its cookie is not the one")
        assert a.service.calls == b.service.calls == []


async def test_nodes_of_other_clusters_and_versions_are_refused(caplog):
    async with (
        started("a@127.0.0.1", identity={"cluster": "north"}) as a,
        started("b@127.0.0.1", identity={"cluster": "south"}) as b,
        started("c@127.0.0.1", identity={"oldest": 3, "newest": 4}) as c,
    ):
        b.dial(a)
        c.dial(a)
        await until(lambda: lines(caplog, "node b@127.0.0.1 belongs to the cluster south"))
        await until(lambda: lines(caplog, "this node (Leveret ) version 2: this node is older"))
        assert a.service.calls == []


async def test_a_second_node_with_the_name_of_a_linked_one_is_refused(caplog):
    async with nodes("a", "b") as (a, b):
        b.dial(a)
        await linked(a, b)
        async with started("b@127.0.0.1") as second:
            second.dial(a)
            await until(lambda: lines(caplog, "a second node with the name b@127.0.0.1 is refused"))
            await until(lambda: lines(caplog, "is linked to another node named b@127.0.0.1"))
            assert not second.service.calls
        a.send(b, b"still here")
        await until(lambda: b.service.received_payloads == [b"still here"])
        assert [call[0] for call in a.service.calls] == ["up"]


async def test_a_new_start_of_a_node_replaces_a_link_that_gives_no_sign_of_life():
    """As when the machine of the old one has lost its power: no side has closed the connection."""
    clock = VirtualClock()
    async with nodes("a", clock=clock) as (a,), started("b@127.0.0.1") as old:
        async with linked_by_proxy(old, a) as proxy:
            proxy.swallows = True
            old.links.forget(a.name, "its machine is gone")
            async with started("b@127.0.0.1") as new:
                new.dial(a)
                await until(lambda: a.links.admission.unfinished == 1)
                await until(lambda: a.links.admission.is_probing)
                assert [call[0] for call in a.service.calls] == ["up"]
                clock.advance(PROBE_MS / 1000)
                await linked(a, new)
                assert [call[0] for call in a.service.calls] == ["up", "down", "up"]
                assert a.service.calls[-1] == ("up", new.name, new.links.incarnation)


async def test_a_link_that_lives_stays_though_the_other_connection_is_gone_by_then(caplog):
    async with nodes("a") as (a,), started("b@127.0.0.1") as old:
        async with linked_by_proxy(old, a) as proxy:
            proxy.swallows = True
            async with started("b@127.0.0.1") as new:
                new.dial(a)
                await until(lambda: a.links.admission.is_probing)
            await until(lambda: not a.links.admission.unfinished)
            caplog.clear()
            proxy.swallows = False
            old.send(a, b"still here")
            await until(lambda: not a.links.admission.is_probing)
            await until(lambda: a.service.received_payloads == [b"still here"])
            assert [call[0] for call in a.service.calls] == ["up"]
            assert not caplog.records


async def test_a_node_that_is_restarted_is_linked_again_with_its_new_incarnation():
    async with nodes("a") as (a,):
        async with started("b@127.0.0.1") as old:
            old.dial(a)
            await linked(a, old)
        async with started("b@127.0.0.1") as new:
            new.dial(a)
            await linked(a, new)
        await until(lambda: [call[0] for call in a.service.calls] == ["up", "down"] * 2)
        assert [call[2] for call in a.service.calls[::2]] == [
            old.links.incarnation,
            new.links.incarnation,
        ]


# Linked nodes that go wrong


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (HEADER.pack(0, 1), "the length of a frame is 0"),
        (b"\xff" * 100, "the length of a frame is 4294967295"),
        (HEADER.pack(80 << 20, 0), "service octet 0 is 83886080, at most 67108864 is valid"),
        (HEADER.pack(3 << 20, 129), "service octet 129 is 3145728, at most 2097153 is valid"),
    ],
)
async def test_a_damaged_frame_closes_the_link_which_is_made_again(data, reason):
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        a.service.up[b.name]._transport.write(data)
        await until(lambda: len(b.service.calls) == 3)
        assert reason in b.service.calls[1][2]
        await linked(a, b)


async def test_a_frame_that_a_service_cannot_handle_closes_the_link(caplog):
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        b.service.received = None
        a.send(b, b"one")
        await until(lambda: [call[0] for call in b.service.calls] == ["up", "down", "up"])
        text = "failed to handle a frame of node a@127.0.0.1 for service 1 (declarations)"
        assert text in caplog.text


@pytest.mark.parametrize("error", [ValueError("bytes of no kind"), RecursionError()])
async def test_a_frame_that_a_service_finds_damaged_closes_the_link_with_a_line(caplog, error):
    def received(peer, payload):
        raise error

    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        b.service.received = received
        a.send(b, b"garbage")
        await until(lambda: [call[0] for call in b.service.calls] == ["up", "down", "up"])
        (line,) = lines(caplog, "sends damaged data")
        reason = str(error) or "RecursionError"
        sent = f"it sends damaged data to service 1 (declarations): {reason}"
        assert line == f"the link to node a@127.0.0.1 is down: {sent}"
        assert not [one for one in caplog.records if one.exc_info]


async def test_what_there_is_of_a_frame_is_freed_with_the_link():
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        link = b.service.up[a.name]
        a.service.up[b.name]._transport.write(HEADER.pack(200 << 20, 1) + bytes(1_000_000))
        await until(lambda: link._cutter.held_octets == 1_000_000)
        a.links.forget(b.name, "a test")
        b.links.forget(a.name, "a test")
        await until(lambda: link.is_down)
        assert link._cutter.held_octets == 0


async def test_frames_for_a_service_that_is_not_there_are_left_out_with_one_line(caplog):
    caplog.set_level(logging.INFO)
    async with nodes("a", "b") as (a, b):
        a.dial(b)
        await linked(a, b)
        for _ in range(5):
            a.service.up[b.name].send(77, b"to nobody")
        a.send(b, b"to somebody")
        await until(lambda: b.service.received_payloads == [b"to somebody"])
        assert len(lines(caplog, "for service 77, which this node does not run")) == 1
