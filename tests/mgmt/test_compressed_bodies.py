"""Compressed bodies: a node decompresses nothing before a login, and not much after it."""

import asyncio
import gzip
import json
import zlib

import pytest

from leveret.mgmt.http import content_coding
from tests.mgmt.node_in_process import AUTHORIZATION
from tests.patience import PATIENCE_SECONDS

FORM = b"username=guest&password=guest"
BOMB = gzip.compress(bytes(30_000_000), 9)
BAD = b"\x1f\x8b\x08\x00" + b"\xff" * 48
NO_LOGIN, OTHER_LOGIN = "", "Authorization: Basic eDp4\r\n"
LOGIN = f"Authorization: {AUTHORIZATION}\r\n"
EVERY_CODING = ("gzip", "deflate", "br", "zstd", "rot13", "gzip, gzip")


@pytest.fixture(autouse=True)
def decompressed(monkeypatch):
    """What was handed to zlib, through any name that it has here or in aiohttp."""
    handed = []
    original = zlib.decompressobj

    def noting(*arguments, **options):
        handed.append(arguments)
        return original(*arguments, **options)

    monkeypatch.setattr(zlib, "decompressobj", noting)
    return handed


async def send(served, head, body, coding, login=NO_LOGIN, port=None):
    """Send a request; its status, the headers of the answer, and the whole of it."""
    where = ("127.0.0.1", port or served.http_port)
    reader, writer = await asyncio.open_connection(*where)
    sizes = f"Host: x\r\nContent-Encoding: {coding}\r\nContent-Length: {len(body)}\r\n"
    writer.write(f"{head} HTTP/1.1\r\n{login}{sizes}\r\n".encode() + body)
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            size = int(head.lower().partition("content-length: ")[2].partition("\r")[0] or 0)
            content = await reader.readexactly(size)
    finally:
        writer.close()
    return int(head.split()[1]), head, content


async def is_ended(served, head, body, coding, login):
    """Whether the node ends the connection after its answer."""
    _, answered, _ = await send(served, head, body, coding, login)
    return "connection: close" in answered.lower()


def log_of(caplog):
    return [one for one in caplog.records if one.levelname != "INFO"]


class TestBeforeALogin:
    async def test_no_login_form_is_decompressed(self, served, decompressed, caplog):
        body = gzip.compress(FORM)
        for coding in EVERY_CODING:
            status, head, content = await send(served, "POST /api/login", body, coding)
            assert status == 400
            assert "accept-encoding: identity" in head.lower()
            assert "may not be compressed before a login" in json.loads(content)["reason"]
        assert decompressed == []
        lines = log_of(caplog)
        assert len(lines) == len(EVERY_CODING)
        assert all(line.exc_info is None for line in lines)

    @pytest.mark.parametrize("body", [BOMB, BAD], ids=["bomb", "bad"])
    async def test_nothing_else_is(self, served, decompressed, caplog, body):
        for head, login, wanted in (
            ("GET /api/auth", NO_LOGIN, 200),
            ("POST /api/definitions", NO_LOGIN, 401),
            ("PUT /api/queues/%2F/q", OTHER_LOGIN, 401),
            ("POST /api/nothing", NO_LOGIN, 404),
            ("OPTIONS /api/queues", NO_LOGIN, 200),
            ("POST /", NO_LOGIN, 404),
            ("GET /", NO_LOGIN, 200),
        ):
            assert (await send(served, head, body, "gzip", login))[0] == wanted, head
        assert decompressed == []
        assert all(line.exc_info is None for line in caplog.records)

    async def test_nor_is_it_where_there_is_no_login(self, served, decompressed):
        port = served.metrics_port
        assert (await send(served, "GET /metrics", BOMB, "gzip", port=port))[0] == 200
        assert decompressed == []

    async def test_the_connection_ends(self, served):
        assert await is_ended(served, "POST /api/login", BOMB, "gzip", NO_LOGIN)


class TestAfterALogin:
    async def test_a_body_may_be_compressed(self, served):
        body = b'{"arguments": {"x-max-length": 5}}'
        for coding, compressed in (("gzip", gzip.compress(body)), ("deflate", zlib.compress(body))):
            head = f"PUT /api/queues/%2F/{coding}"
            assert (await send(served, head, compressed, coding, LOGIN))[0] == 201
            shown = json.loads(await asyncio.to_thread(served.ask, f"api/queues/%2F/{coding}"))
            assert shown["arguments"] == {"x-max-length": 5}

    async def test_what_cannot_be_read_is_refused_in_a_line(self, served, caplog):
        for coding in EVERY_CODING:
            caplog.clear()
            status, answered, content = await send(served, "PUT /api/users/u", BAD, coding, LOGIN)
            assert status == 400
            assert "accept-encoding: gzip, deflate" in answered.lower()
            assert "the body cannot be read: it" in json.loads(content)["reason"]
            (line,) = log_of(caplog)
            assert line.exc_info is None
            assert "the body is refused" in line.getMessage()

    async def test_a_bomb_is_given_up(self, served, decompressed, monkeypatch):
        made = []
        original = content_coding._pieces

        def noting(*arguments):
            for piece in original(*arguments):
                made.append(len(piece))
                yield piece

        monkeypatch.setattr(content_coding, "_pieces", noting)
        path = "POST /api/definitions"
        status, _, content = await send(served, path, BOMB, "gzip", LOGIN)
        assert status == 400
        assert "expands to more than 100 times" in json.loads(content)["reason"]
        assert max(made) <= content_coding.SLICE_BYTES
        assert sum(made) < 100 * len(BOMB) + 2 * content_coding.SLICE_BYTES
        assert len(decompressed) == 1
        assert await is_ended(served, path, BOMB, "gzip", LOGIN)
