"""What HTTP clients send is parsed in turns of the event loop, a bounded part in each."""

import asyncio

import pytest
from aiohttp import web

from leveret.broker.config import Listener
from leveret.mgmt.http.http_clients import HttpClient
from leveret.mgmt.http.listening import listen
from leveret.mgmt.http.read_turns import BYTES_A_TURN, SLICE_BYTES, ReadTurns
from tests.patience import PATIENCE_SECONDS

HEAD = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = 60_000
BODY = b"1\r\nx\r\n" * CHUNKS + b"0\r\n\r\n"
CLIENTS = 8


class Client:
    """Has bytes to read. log: has the client for each piece that it has read."""

    def __init__(self, size, log):
        self.left = size
        self._log = log

    def read_on(self, size):
        self._log.append(self)
        self.left = max(0, self.left - size)
        return self.left > 0


@pytest.fixture
def turns():
    """Turns that begin when `next_turn` is called."""
    due = []

    def next_turn():
        begin = due.pop()
        begin()

    made = ReadTurns(due.append)
    made.next_turn = next_turn
    return made


def test_little_is_read_at_once(turns):
    assert turns.take(BYTES_A_TURN // 2)
    assert turns.take(BYTES_A_TURN // 2)
    assert not turns.take(1)
    turns.next_turn()
    assert turns.take(BYTES_A_TURN)


def test_what_waits_is_read_a_slice_of_each_client_at_a_time(turns):
    log = []
    long, short = Client(3 * BYTES_A_TURN, log), Client(100, log)
    turns.wait(long)
    turns.wait(short)
    turns.next_turn()
    assert log[:3] == [long, short, long]
    assert len(log) == BYTES_A_TURN // SLICE_BYTES
    assert not turns.take(1), "who comes later does not overtake who waits"
    while long.left:
        turns.next_turn()
    assert turns.take(1)


def test_many_clients_are_read_no_more_in_a_turn_than_one(turns):
    log = []
    for _ in range(100):
        turns.wait(Client(BYTES_A_TURN, log))
    turns.next_turn()
    assert len(log) == BYTES_A_TURN // SLICE_BYTES


def test_a_client_that_fails_does_not_stop_the_others(turns):
    class Failing:
        def read_on(self, size):
            raise ValueError

    log = []
    turns.wait(Failing())
    turns.wait(Client(100, log))
    with pytest.raises(ValueError):
        turns.next_turn()
    turns.next_turn()
    assert len(log) == 1


async def test_long_bodies_in_many_chunks_arrive_whole(monkeypatch):
    """Bytes are counted for each turn: however much comes, each is short."""
    loop = asyncio.get_running_loop()
    counted = [0]
    parse = HttpClient._parse

    def count_and_parse(client, data):
        counted[-1] += len(data)
        parse(client, data)

    def count_turns():
        counted.append(0)
        counting[0] = loop.call_soon(count_turns)

    async def size_of_body(request):
        return web.Response(text=str(len(await request.read())))

    application = web.Application()
    application.router.add_post("/", size_of_body)
    runner = web.AppRunner(application)
    address = await listen(runner, Listener("127.0.0.1", 0), None, PATIENCE_SECONDS)
    monkeypatch.setattr(HttpClient, "_parse", count_and_parse)
    counting = [loop.call_soon(count_turns)]
    answers = await asyncio.gather(*(_post(address) for _ in range(CLIENTS)))
    counting[0].cancel()
    await runner.cleanup()
    assert all(answer.endswith(b"\r\n\r\n%d" % CHUNKS) for answer in answers)
    assert sum(counted) == CLIENTS * (len(HEAD) + len(BODY))
    # A turn of the loop may have the end of one turn of reading and the beginning of the next.
    assert max(counted) <= 2 * BYTES_A_TURN


async def _post(address):
    """Send the body, while the answer is awaited. Returns the answer."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(HEAD + BODY)
    answer = await reader.readuntil(b"\r\n\r\n")
    answer += await reader.readexactly(len(str(CHUNKS)))
    writer.close()
    await writer.wait_closed()
    return answer
