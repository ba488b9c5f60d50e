"""A JSON API whose server does everything that it should not."""

import asyncio
import socket
import ssl

import pytest
from yarl import URL

from leveret.broker.auth.backends.client_tls import client_context
from leveret.broker.config.tls_settings import ClientTlsOptions
from leveret.cluster.discovery.discovery import DiscoveryError
from leveret.cluster.discovery.json_api import (
    ANSWER_BYTES_MAX,
    Advice,
    JsonApi,
    StatusError,
    UnreachableError,
)
from tests.feature.certificate_authority import CertificateAuthority
from tests.unit.cluster.discovery.json_server import Answer, JsonServer

ADVICE = Advice("check the address", "check the token", "check the name", "the server")
ASKED = "GET /names"


@pytest.fixture
async def server():
    async with JsonServer().running() as server:
        yield server


@pytest.fixture
async def api(server):
    api = JsonApi([URL(server.url)], ADVICE)
    yield api
    await api.close()


async def names(api, **options):
    return await api.ask("GET", "/names", list[str], **options)


async def test_an_answer_is_decoded(server, api):
    server.answers[ASKED] = Answer(["anna"])
    assert await names(api, query={"of": "users"}, headers={"X-Token": "t"}) == ["anna"]
    assert server.asked[0].query == {"of": "users"}
    assert server.asked[0].headers["X-Token"] == "t"


async def test_an_empty_answer_of_success_is_enough_where_nothing_is_asked(server, api):
    server.answers["PUT /names"] = Answer(b"", 204)
    await api.tell("PUT", "/names", body={"name": "anna"})
    assert server.asked[0].body == {"name": "anna"}


@pytest.mark.parametrize(
    ("status", "advice"),
    [
        (401, "check the token"),
        (403, "check the token"),
        (404, "check the name"),
        (500, "look at the log of the server"),
        (429, "look at the log of the server"),
    ],
)
async def test_a_status_is_told_with_what_to_do(server, api, status, advice):
    server.answers[ASKED] = Answer(b"it is\n closed \x1b[31m", status)
    with pytest.raises(StatusError) as error:
        await names(api, query={"of": "users"})
    said = r"it is closed [31m"
    url = f"{server.url}/names?of=users"
    assert str(error.value) == f"GET {url} answered with status {status} ({said}): {advice}"
    assert error.value.status == status


@pytest.mark.parametrize("secret", ["s3cret-token", "s3cret" * 1000, 's3cret"\\token'])
async def test_a_secret_that_the_server_repeats_is_not_shown(server, api, secret):
    api.hide(secret)
    for content in (f"no such token: {secret}".encode(), [f"no such token: {secret}"]):
        server.answers[ASKED] = Answer(content, 403)
        with pytest.raises(StatusError, match=r"no such token: \*\*\*") as error:
            await names(api)
        assert "s3cret" not in str(error.value)


async def test_a_header_that_cannot_be_sent_is_told_without_it(server, api):
    with pytest.raises(UnreachableError, match="cannot be sent: .*check the token") as error:
        await names(api, headers={"X-Token": "s3cret\r\nX-Other: 1"})
    assert "s3cret" not in str(error.value)


async def test_an_answer_that_is_not_http_is_told_without_the_secret(api):
    async def answer(reader, writer):
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"token s3cret is wrong\r\n\r\n")
        writer.close()

    api.hide("s3cret")
    async with await asyncio.start_server(answer, "127.0.0.1", 0) as garbled:
        port = garbled.sockets[0].getsockname()[1]
        api.servers = [URL(f"http://127.0.0.1:{port}")]
        with pytest.raises(UnreachableError, match="check the address") as error:
            await names(api)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(server, api, status):
    server.answers[ASKED] = Answer(b"", status, {"Location": "/other"})
    with pytest.raises(StatusError, match="a redirect, which is not followed: check the address"):
        await names(api)
    assert server.lines == [ASKED]


@pytest.mark.parametrize(
    "content", [b"", b"<html>", b'["anna"', b"[" * 100_000, b'{"a": 1}', b"\xff"]
)
async def test_an_answer_that_is_something_else_is_an_error(server, api, content):
    server.answers[ASKED] = Answer(content)
    with pytest.raises(DiscoveryError, match="is not one of the server .*: check the address"):
        await names(api)


async def test_an_error_in_an_answer_names_the_place(server, api):
    server.answers[ASKED] = Answer(["anna", 7])
    with pytest.raises(DiscoveryError, match=r"Expected `str`, got `int` - at `\$\[1\]`"):
        await names(api)


async def test_a_huge_answer_is_broken_off(server, api):
    server.answers[ASKED] = Answer(b" " * (ANSWER_BYTES_MAX + 1))
    with pytest.raises(DiscoveryError, match=f"more than {ANSWER_BYTES_MAX} bytes"):
        await names(api)


async def test_a_server_that_does_not_answer_in_time_is_left(server):
    never = asyncio.Event()
    server.answers[ASKED] = Answer([], delay=never)
    api = JsonApi([URL(server.url)], ADVICE, request_s=0.02)
    with pytest.raises(UnreachableError, match="was not answered within 0.02 seconds: check the"):
        await names(api)
    never.set()
    await api.close()


async def test_a_server_that_was_asked_to_wait_has_the_time_for_it(server):
    waiting = asyncio.Event()
    server.answers[ASKED] = Answer(["anna"], delay=waiting)
    api = JsonApi([URL(server.url)], ADVICE, request_s=0.001)
    asking = asyncio.ensure_future(names(api, wait_s=60))
    while not server.asked:
        await asyncio.sleep(0)
    waiting.set()
    assert await asking == ["anna"]
    await api.close()


async def test_a_port_without_a_server_is_named():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        api = JsonApi([URL(url)], ADVICE)
        with pytest.raises(UnreachableError) as error:
            await names(api)
        assert str(error.value) == f"GET {url}/names: Connection refused: check the address"
        await api.close()


async def test_the_next_server_is_asked_if_one_is_down_or_has_an_error(server):
    async with JsonServer().running() as failing:
        failing.answers[ASKED] = Answer(b"", 503)
        server.answers[ASKED] = Answer(["anna"])
        urls = [URL("http://127.0.0.1:1"), URL(failing.url), URL(server.url)]
        api = JsonApi(urls, ADVICE)
        assert await names(api) == ["anna"]
        assert failing.lines == [ASKED]
        await api.close()


async def test_all_servers_are_named_if_none_answers():
    api = JsonApi([URL("http://127.0.0.1:1"), URL("http://127.0.0.1:2")], ADVICE)
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:1/names.*; GET .*127\.0\.0\.1:2"):
        await names(api)
    await api.close()


async def test_the_certificate_is_checked_against_the_configured_authority(tmp_path):
    ours, other = authority_in(tmp_path / "ours"), authority_in(tmp_path / "other")
    own = ours.issue("server", names=["localhost"])
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(own.certfile, own.keyfile)
    async with JsonServer().running(context) as server:
        server.answers[ASKED] = Answer(["anna"])
        trusting, doubting = (tls_api(server, one) for one in (ours, other))
        assert await names(trusting) == ["anna"]
        with pytest.raises(UnreachableError, match="the certificate is not accepted"):
            await names(doubting)
        await trusting.close()
        await doubting.close()


def authority_in(directory):
    directory.mkdir()
    return CertificateAuthority(directory)


def tls_api(server, authority):
    options = ClientTlsOptions(cacertfile=authority.certfile, sni="localhost")
    return JsonApi([URL(server.url)], ADVICE, client_context(options), options.server_name)
