"""Two transports in one process that are each other's socket."""

import asyncio

import pytest

from leveret.broker.net.in_memory import HIGH_BYTES, InMemoryAddress, connect_in_memory


class Protocol(asyncio.Protocol):
    """Notes what happens. received: all bytes."""

    def __init__(self):
        self.said = []
        self.received = b""

    def connection_made(self, transport):
        self.transport = transport

    def data_received(self, data):
        self.received += data

    def pause_writing(self):
        self.said.append("pause")

    def resume_writing(self):
        self.said.append("resume")

    def eof_received(self):
        self.said.append("eof")

    def connection_lost(self, exc):
        self.said.append("lost")


@pytest.fixture
async def ends():
    client, server = Protocol(), Protocol()
    connect_in_memory(
        client, server, InMemoryAddress("the client", 7), InMemoryAddress("the server", 0)
    )
    return client, server


async def settle():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_what_one_end_writes_the_other_reads_later(ends):
    client, server = ends
    client.transport.write(b"one")
    client.transport.writelines([b"two", memoryview(b"three")])
    assert server.received == b""
    await settle()
    assert server.received == b"onetwothree"
    server.transport.write(b"answer")
    await settle()
    assert client.received == b"answer"


async def test_each_end_knows_the_names(ends):
    client, server = ends
    assert client.transport.get_extra_info("peername") == ("the server", 0)
    assert server.transport.get_extra_info("peername") == ("the client", 7)


async def test_an_end_that_does_not_read_pauses_the_other(ends):
    client, server = ends
    server.transport.pause_reading()
    client.transport.write(bytes(HIGH_BYTES))
    assert client.said == []
    client.transport.write(b"more")
    assert client.said == ["pause"]
    assert client.transport.get_write_buffer_size() == HIGH_BYTES + 4
    await settle()
    assert server.received == b""
    server.transport.resume_reading()
    await settle()
    assert len(server.received) == HIGH_BYTES + 4
    assert client.said == ["pause", "resume"]


async def test_what_was_written_before_the_end_is_read(ends):
    client, server = ends
    client.transport.write(b"last words")
    client.transport.close()
    client.transport.write(b"too late")
    await settle()
    assert server.received == b"last words"
    assert (client.said, server.said) == (["lost"], ["eof", "lost"])
    assert server.transport.is_closing()


async def test_an_abort_loses_what_was_not_read(ends):
    client, server = ends
    client.transport.write(b"lost")
    client.transport.abort()
    await settle()
    assert server.received == b""
    assert (client.said, server.said) == (["lost"], ["eof", "lost"])


async def test_both_ends_may_be_closed_at_once(ends):
    client, server = ends
    client.transport.close()
    server.transport.close()
    await settle()
    assert (client.said, server.said) == (["lost"], ["lost"])
