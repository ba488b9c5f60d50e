"""Clients are accepted while there are descriptors for them, and a few in a turn of the loop."""

import asyncio
import os
import socket
from contextlib import closing

import pytest
import uvloop

from leveret.broker.net import acceptor as acceptor_module
from leveret.broker.net.acceptor import ACCEPTED_MAX, Acceptor
from leveret.broker.resources.file_descriptors import (
    descriptor_limit,
    open_descriptors,
    sockets_max,
)
from tests.patience import PATIENCE_SECONDS


class Greeting(asyncio.Protocol):
    """A protocol that greets its client."""

    def connection_made(self, transport):
        transport.write(b"hello")


@pytest.fixture
async def acceptor():
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.setblocking(False)
    acceptor = Acceptor(listening, Greeting)
    acceptor.start(backlog=128)
    yield acceptor
    acceptor.close()


async def connect(acceptor):
    """A client, and what it receives: the greeting, or nothing at all."""
    loop = asyncio.get_running_loop()
    client = socket.socket()
    client.setblocking(False)
    async with asyncio.timeout(PATIENCE_SECONDS):
        await loop.sock_connect(client, (acceptor.host, acceptor.port))
        try:
            return client, await loop.sock_recv(client, 5)
        except ConnectionResetError:
            return client, b""


@pytest.fixture
def free():
    """The lowest free descriptor; all above it are free, too, during the test."""
    highest = max(map(int, os.listdir("/proc/self/fd")))
    held = [os.dup(0)]
    while held[-1] <= highest:
        held.append(os.dup(0))
    first = held.pop()
    os.close(first)
    yield first
    for descriptor in held:
        os.close(descriptor)


async def test_clients_are_refused_where_descriptors_are_reserved(
    acceptor, free, monkeypatch, caplog
):
    # Client and server are one process here: each connection takes two descriptors.
    monkeypatch.setattr(acceptor_module, "sockets_max", lambda limit: free + 4)
    first, greeting = await connect(acceptor)
    second, other_greeting = await connect(acceptor)
    third, nothing = await connect(acceptor)
    fourth, still_nothing = await connect(acceptor)
    assert (greeting, other_greeting, nothing, still_nothing) == (b"hello", b"hello", b"", b"")
    (warning,) = caplog.records
    assert f"clients that connect to 127.0.0.1:{acceptor.port} are refused" in warning.message
    assert str(descriptor_limit()) in warning.message
    for client in (second, third, fourth):
        client.close()
    monkeypatch.setattr(acceptor_module, "sockets_max", lambda limit: free + 6)
    again, greeting = await connect(acceptor)
    assert greeting == b"hello"
    assert "are accepted again; 2 were refused" in caplog.messages[-1]
    first.close()
    again.close()


async def test_a_turn_accepts_a_few_clients_of_many(acceptor, monkeypatch):
    clients = [socket.create_connection((acceptor.host, acceptor.port)) for _ in range(40)]
    accepted_in_turn = []
    accept = acceptor._accept_waiting

    def counted():
        before = len(acceptor._beginning)
        accept()
        accepted_in_turn.append(len(acceptor._beginning) - before)

    monkeypatch.setattr(acceptor, "_accept_waiting", counted)
    acceptor._resume()
    async with asyncio.timeout(PATIENCE_SECONDS):
        while sum(accepted_in_turn) < 40:
            await asyncio.sleep(0)
    assert max(accepted_in_turn) <= ACCEPTED_MAX
    for client in clients:
        client.close()


async def test_accepting_pauses_when_the_system_cannot(acceptor, monkeypatch, caplog):
    class Exhausted:
        def accept(self):
            raise OSError(24, "Too many open files")

        def __getattr__(self, name):
            return getattr(listening, name)

    listening, pauses = acceptor._listening, []
    monkeypatch.setattr(acceptor, "_listening", Exhausted())
    monkeypatch.setattr(acceptor_module, "PAUSE_SECONDS", 0)
    monkeypatch.setattr(acceptor, "_resume", lambda: pauses.append("over"))
    client = socket.create_connection((acceptor.host, acceptor.port))
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not pauses:
            await asyncio.sleep(0)
    assert "Too many open files" in caplog.text
    monkeypatch.undo()
    acceptor._resume()
    client.close()


async def test_a_closed_acceptor_accepts_no_connection(acceptor):
    acceptor.close()
    acceptor.close()
    with closing(socket.socket()) as client, pytest.raises(ConnectionRefusedError):
        client.connect((acceptor.host, acceptor.port))


async def test_an_address_that_is_in_use_is_named(acceptor):
    other = socket.socket()
    other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with pytest.raises(OSError, match="in use"):
        other.bind((acceptor.host, acceptor.port))
        Acceptor(other, Greeting).start(backlog=1)
    other.close()


@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        pytest.param(65_536, 58_890, id="as RabbitMQ"),
        pytest.param(1024, 829, id="as RabbitMQ with the usual limit"),
        pytest.param(120, 60, id="half of few"),
    ],
)
def test_files_keep_a_share_of_the_descriptors(limit, expected):
    assert sockets_max(limit) == expected


def test_open_descriptors_are_counted():
    before = open_descriptors()
    with closing(socket.socket()):
        assert open_descriptors() == before + 1


async def test_a_client_that_is_being_connected_is_closed_with_its_listener(acceptor, monkeypatch):
    def make_protocol():
        acceptor.close()
        return Greeting()

    monkeypatch.setattr(acceptor, "_make_protocol", make_protocol)
    client, received = await connect(acceptor)
    async with asyncio.timeout(PATIENCE_SECONDS):
        while received:
            received = await asyncio.get_running_loop().sock_recv(client, 5)
    client.close()


class Noting(asyncio.Protocol):
    """A protocol that notes what it is told, and whose acceptor closes when it is connected."""

    def __init__(self, calls, loses):
        self.calls, self.loses = calls, loses
        self.transport = None

    def connection_made(self, transport):
        self.calls.append("made")
        self.transport = transport
        self.loses()

    def connection_lost(self, exc):
        self.calls.append("lost")


async def closed_while_it_connects():
    """What the protocol of a client is told whose acceptor closes in the same turn."""
    calls, made = [], []
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.setblocking(False)

    def make():
        made.append(Noting(calls, acceptor.close))
        return made[0]

    acceptor = Acceptor(listening, make)
    acceptor.start(backlog=1)
    with socket.socket() as client:
        client.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(client, (acceptor.host, acceptor.port))
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await loop.sock_recv(client, 1) == b""
    return calls


def test_a_client_that_connects_while_it_closes_is_told_to_its_protocol_as_lost():
    # asyncio's own loop tells the protocol in any case.
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(closed_while_it_connects()) == ["made", "lost"]
