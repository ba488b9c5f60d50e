"""Bodies that never arrive completely: little of them is kept, and that is freed at once."""

import asyncio
import gc
from contextlib import suppress

import pytest

from leveret.broker.resources.memory_measures import allocated_bytes
from leveret.mgmt.api import incoming
from leveret.mgmt.http import http_clients
from tests.mgmt.node_in_process import AUTHORIZATION
from tests.patience import PATIENCE_SECONDS, until

MEGABYTE = 1_000_000
KEPT_BYTES_MAX = 2 * MEGABYTE
LOGIN = "POST /api/login HTTP/1.1\r\nContent-Type: application/x-www-form-urlencoded\r\n"
UPLOAD = (
    f"POST /api/definitions HTTP/1.1\r\nAuthorization: {AUTHORIZATION}\r\n"
    "Content-Type: application/json\r\n"
)
FORM = UPLOAD.replace("application/json", "multipart/form-data; boundary=x")
FILE = '--x\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n\r\n'
FIELD = FILE.replace('; filename="f"', "")


async def cut_off(served, head, size, begin=""):
    """Send a request's head and a part of its body, and go; returns how much was taken."""
    reader, writer = await asyncio.open_connection("127.0.0.1", served.http_port)
    sizes = f"Host: x\r\nContent-Length: {size + 1000}\r\nExpect: 100-continue\r\n\r\n"
    writer.write(f"{head}{sizes}{begin}".encode())
    await reader.readuntil(b"\r\n\r\n")
    answer = asyncio.ensure_future(reader.read())
    sent = 0
    while sent < size and not answer.done():
        part = min(250_000, size - sent)
        writer.write(b"a" * part)
        await writer.drain()
        sent += part
    writer.transport.abort()
    await asyncio.wait([answer])
    return sent


async def is_freed_after(served, count, *request):
    """Whether memory use falls to its level before a number of requests, without a collection."""
    await cut_off(served, *request)
    gc.collect()
    gc.disable()
    try:
        before = allocated_bytes()
        for _ in range(count):
            await cut_off(served, *request)
        async with asyncio.timeout(PATIENCE_SECONDS):
            while allocated_bytes() > before + KEPT_BYTES_MAX:
                await asyncio.sleep(0.01)
    except TimeoutError:
        return False
    finally:
        gc.enable()
    return True


@pytest.mark.parametrize(
    ("head", "begin"),
    [(LOGIN, "username=guest&password="), (UPLOAD, ""), (FORM, FILE), (FORM, FIELD)],
    ids=["login", "upload", "file in a form", "field of a form"],
)
async def test_a_body_that_was_cut_off_is_freed_at_once(served, head, begin):
    assert await is_freed_after(served, 10, head, 2 * MEGABYTE, begin)


@pytest.mark.parametrize("port", ["http_port", "metrics_port"])
@pytest.mark.parametrize("begin", ["GET /", "GET / HTTP/1.1\r\nX: ", "\x16\x03"])
async def test_a_head_without_an_end_is_freed_at_once(served, port, begin):
    async def send():
        _, writer = await asyncio.open_connection("127.0.0.1", getattr(served, port))
        writer.write(begin.encode())
        with suppress(ConnectionError):
            for _ in range(20):
                writer.write(b"a" * 250_000)
                await writer.drain()
        writer.transport.abort()

    await send()
    gc.collect()
    gc.disable()
    try:
        before = allocated_bytes()
        for _ in range(10):
            await send()
        await until(lambda: allocated_bytes() < before + KEPT_BYTES_MAX)
    finally:
        gc.enable()


@pytest.mark.parametrize("port", ["http_port", "metrics_port"])
@pytest.mark.parametrize("sent", ["", "GET /api/over"])
async def test_a_client_that_sends_no_request_is_disconnected(served, monkeypatch, port, sent):
    assert http_clients.FIRST_REQUEST_SECONDS == 5
    monkeypatch.setattr(http_clients, "FIRST_REQUEST_SECONDS", 0.01)
    reader, writer = await asyncio.open_connection("127.0.0.1", getattr(served, port))
    writer.write(sent.encode())
    # It is a reset where what was sent has not been read.
    with suppress(ConnectionResetError):
        async with asyncio.timeout(PATIENCE_SECONDS):
            assert await reader.read() == b""
    writer.close()


async def test_a_login_may_not_be_longer_than_64_kilobytes(served):
    reader, writer = await asyncio.open_connection("127.0.0.1", served.http_port)
    writer.write(f"{LOGIN}Host: x\r\nContent-Length: 70000\r\n\r\n".encode() + b"a" * 64_001)
    assert b" 413 " in await reader.readline()
    writer.close()


async def test_a_login_may_not_take_longer_than_5_seconds(served, monkeypatch):
    limits = incoming.BEFORE_LOGIN
    assert limits.timeout_ms == 5_000
    monkeypatch.setattr(incoming, "BEFORE_LOGIN", limits._replace(timeout_ms=1))
    reader, writer = await asyncio.open_connection("127.0.0.1", served.http_port)
    writer.write(f"{LOGIN}Host: x\r\nContent-Length: 100\r\n\r\nusername=g".encode())
    assert b" 408 " in await reader.readline()
    writer.close()


def of_the_server(caplog):
    """Return what the HTTP server has logged."""
    return [one for one in caplog.records if one.name in ("aiohttp.server", "leveret.management")]


async def test_a_body_that_was_cut_off_leaves_nothing_in_the_log(served, caplog):
    tasks = len(asyncio.all_tasks())
    await cut_off(served, UPLOAD, MEGABYTE)
    while len(asyncio.all_tasks()) > tasks:
        await asyncio.sleep(0)
    assert of_the_server(caplog) == []


async def test_an_answer_that_is_cut_off_leaves_nothing_in_the_log(served, caplog):
    large = {"value": "a" * 10 * MEGABYTE}
    await asyncio.to_thread(served.ask, "api/global-parameters/large", large, "PUT")
    tasks = len(asyncio.all_tasks())
    reader, writer = await asyncio.open_connection("127.0.0.1", served.http_port, limit=10)
    head = f"GET /api/global-parameters HTTP/1.1\r\nAuthorization: {AUTHORIZATION}\r\n"
    writer.write(f"{head}Host: x\r\n\r\n".encode())
    assert b"200" in await reader.read(15)
    writer.transport.abort()
    while len(asyncio.all_tasks()) > tasks:
        await asyncio.sleep(0)
    assert of_the_server(caplog) == []
