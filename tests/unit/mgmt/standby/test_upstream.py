"""Getting the definitions of an upstream, and why that fails in words for an operator."""

import gzip
import inspect
import json
import ssl
import zlib

import pytest
from aiohttp import web

from leveret.broker.policies.parameter_validation import ParameterError
from leveret.broker.policies.schema_replication import endpoint_url, parse_upstream
from leveret.mgmt.standby import upstream as upstreams
from leveret.mgmt.standby.upstream import StandbyUpstream, UpstreamError, definitions_of
from tests.feature import served
from tests.feature.certificate_authority import CertificateAuthority

DEFINITIONS = {"rabbitmq_version": "3.12.14", "queues": [{"name": "q", "vhost": "/"}]}


async def go_on():
    """Give way: nothing else runs."""


def serving(answer, context=None, path="/api/definitions"):
    """A server, by its endpoint. answer: the response that it gives, or what makes it."""

    async def handle(request):
        made = answer(request) if callable(answer) else answer
        return await made if inspect.isawaitable(made) else made

    application = web.Application()
    application.router.add_get(path, handle)
    return served.serving(application, context)


def upstream(*endpoints, **setting):
    given = {"endpoints": list(endpoints), "username": "jürgen", "password": "a:b"}
    return StandbyUpstream(parse_upstream({**given, **setting}), go_on)


async def reason_of(answer):
    async with serving(answer) as endpoint:
        with pytest.raises(UpstreamError) as raised:
            await upstream(endpoint).fetch("")
        return str(raised.value).removeprefix(f"{endpoint} ")


async def test_the_content_comes_with_its_etag():
    headers = {"ETag": '"abc"'}
    answer = web.json_response(DEFINITIONS, headers=headers)
    async with serving(answer) as endpoint:
        found = await upstream(endpoint).fetch("")
    assert (found.endpoint, found.etag) == (endpoint, '"abc"')
    definitions = await definitions_of(found.content, go_on)
    assert definitions.items("queues") == DEFINITIONS["queues"]


async def test_unchanged_definitions_are_not_sent_again():
    def answer(request):
        assert request.headers["If-None-Match"] == '"abc"'
        return web.Response(status=304)

    async with serving(answer) as endpoint:
        found = await upstream(endpoint).fetch('"abc"')
    assert (found.content, found.etag) == (None, '"abc"')


async def test_names_and_passwords_may_have_any_letters():
    def answer(request):
        # Base64 of the UTF-8 of `jürgen:a:b`.
        assert request.headers["Authorization"] == "Basic asO8cmdlbjphOmI="
        return web.json_response(DEFINITIONS)

    async with serving(answer) as endpoint:
        assert (await upstream(endpoint).fetch("")).content


@pytest.mark.parametrize(
    ("status", "content", "reason"),
    [
        (401, {"reason": "Not administrator user"}, "must have the tag administrator there"),
        (401, {"reason": "Login\n failed"}, "(it says: Login failed)"),
        (403, "<html>", "refuses user 'jürgen': check the password"),
        (404, {}, "answers with status 404 for /api/definitions: it is not the management"),
        (302, "", "answers with status 302"),
        (500, {"reason": "x" * 999}, f"answers with status 500: {'x' * 200}"),
        (503, "", "answers with status 503"),
    ],
)
async def test_a_refusal_says_what_to_do(status, content, reason):
    text = content if isinstance(content, str) else json.dumps(content)
    assert reason in await reason_of(web.Response(status=status, text=text))


async def test_the_reasons_of_all_endpoints_are_told():
    async with serving(web.Response(status=404)) as endpoint:
        with pytest.raises(UpstreamError) as raised:
            await upstream("127.0.0.1:1", endpoint).fetch("")
    first, second = str(raised.value).split("; ")
    assert first == "http://127.0.0.1:1 cannot be reached: Connection refused"
    assert second.startswith(f"{endpoint} answers with status 404")


async def test_an_endpoint_that_answers_is_enough():
    async with serving(web.json_response(DEFINITIONS)) as endpoint:
        found = await upstream("127.0.0.1:1", endpoint).fetch("")
    assert found.endpoint == endpoint


@pytest.mark.parametrize(
    ("coding", "compress"), [("gzip", gzip.compress), ("deflate", zlib.compress)]
)
async def test_definitions_may_be_compressed(coding, compress):
    def answer(request):
        assert request.headers["Accept-Encoding"] == "gzip, deflate"
        content = compress(json.dumps(DEFINITIONS).encode())
        return web.Response(body=content, headers={"Content-Encoding": coding})

    async with serving(answer) as endpoint:
        found = await upstream(endpoint).fetch("")
    assert json.loads(found.content) == DEFINITIONS


@pytest.mark.parametrize(
    ("coding", "body", "reason"),
    [
        (
            "gzip",
            gzip.compress(bytes(30_000_000), 9, mtime=0),
            "it expands to more than 100 times its size",
        ),
        ("gzip", b"no gzip", "it is not valid gzip"),
        ("br", b"", "its coding 'br' is not one of gzip, deflate"),
        ("gzip, gzip", b"", "it is compressed 2 times"),
    ],
)
async def test_what_an_upstream_compressed_is_bounded(coding, body, reason):
    answer = web.Response(body=body, headers={"Content-Encoding": coding})
    told = await reason_of(answer)
    assert told.startswith(f"gives an answer that cannot be read: {reason}")


async def test_an_answer_has_a_limit(monkeypatch):
    monkeypatch.setattr(upstreams, "CONTENT_BYTES_MAX", 1000)
    answer = web.Response(body=b" " * 1001)
    assert await reason_of(answer) == "gives an answer of more than 1000 bytes"


async def test_a_connection_that_ends_is_told():
    async def answer(request):
        response = web.StreamResponse(headers={"Content-Length": "100"})
        await response.prepare(request)
        await response.write(b"{")
        request.transport.close()
        return response

    assert await reason_of(answer) == "ended the connection before it answered"


async def test_the_certificate_of_the_upstream_is_checked(tmp_path):
    authority = CertificateAuthority(tmp_path)
    own = authority.issue("server", names=["127.0.0.1"])
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(own.certfile, own.keyfile)
    async with serving(lambda request: web.json_response(DEFINITIONS), context) as endpoint:
        with pytest.raises(UpstreamError, match="has a certificate that is not trusted here"):
            await upstream(endpoint).fetch("")
        assert (await upstream(endpoint, cacertfile=str(authority.certfile)).fetch("")).content
        assert (await upstream(endpoint, verify="verify_none").fetch("")).content


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "cannot be read: it is not JSON: line 1 column 2"),
        (b"[]", "cannot be read: it is not a JSON object of lists"),
        (b"\xff", "cannot be read: it is not UTF-8 text"),
        (b'{"queues": ' + b"1" * 5000 + b"}", "cannot be read: it has a number that is too large"),
        (
            b'{"queues": [{"name": ' + b"1" * 5000 + b"}]}",
            "cannot be read: queues[0]: has a number that is too large",
        ),
        (
            b'{"queues": [{"arguments": {"x-max-length": ' + b"1" * 1001 + b"}}]}",
            "cannot be read: queues[0]: JSON may not have integers of more than 1,000 digits",
        ),
        (b"{}", "names no version of RabbitMQ"),
        (b'{"rabbitmq_version": 5}', "names no version of RabbitMQ"),
        (b'{"rabbitmq_version": "5.0.1"}', "has version 5.0.1, and definitions of versions 3 and"),
        (b'{"rabbitmq_version": "2.8.7"}', "has version 2.8.7"),
        (b'{"rabbitmq_version": "3.10.8", "queues": 1}', "queues: should be a list of objects"),
    ],
)
async def test_definitions_that_cannot_be_followed_are_refused(content, reason):
    with pytest.raises(UpstreamError) as raised:
        await definitions_of(content, go_on)
    assert reason in str(raised.value)


@pytest.mark.parametrize("version", ["3.6.0", "3.10.8", "4.1.0-rc.1"])
async def test_these_versions_are_followed(version):
    content = json.dumps({**DEFINITIONS, "rabbitmq_version": version}).encode()
    assert (await definitions_of(content, go_on)).version == version


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("host", "http://host:15672"), ("host:1", "http://host:1"),
        ("https://host", "https://host:15671"), ("http://host/prefix/", "http://host:15672/prefix"),
        ("[::1]:99", "http://[::1]:99"), ("http://[::1]", "http://[::1]:15672"),
    ],
)  # fmt: skip
def test_an_endpoint_is_an_address_of_management(text, url):
    assert endpoint_url(text) == url


@pytest.mark.parametrize("text", ["", "ftp://host", "host:port", "host:70000", "http://h?a=b"])
def test_other_texts_are_no_endpoints(text):
    with pytest.raises(ParameterError, match="is not an endpoint"):
        endpoint_url(text)


@pytest.mark.parametrize(
    ("answer", "follows"),
    [
        ({"operating_mode": "downstream", "follows": ["id 1", "id 2"]}, ("id 1", "id 2")),
        ({"operating_mode": "upstream"}, ()),
        ({"follows": "id"}, ()),
        ([], ()),
    ],
)
async def test_whom_the_upstream_follows_itself(answer, follows):
    async with serving(web.json_response(answer), path="/api/schema-replication") as endpoint:
        assert await upstream(endpoint).follows(endpoint) == follows


async def test_an_upstream_without_schema_replication_follows_no_cluster():
    answer = web.Response(status=404, text="not found")
    async with serving(answer, path="/api/schema-replication") as endpoint:
        assert await upstream(endpoint).follows(endpoint) == ()


async def test_an_upstream_that_is_lost_between_two_questions():
    one = upstream("http://127.0.0.1:1")
    with pytest.raises(UpstreamError, match="http://127.0.0.1:1 cannot be reached"):
        await one.follows("http://127.0.0.1:1")
