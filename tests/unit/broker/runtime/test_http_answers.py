"""Answers of HTTP servers that a node asks: a hostile one makes it decompress nothing."""

import gzip
import zlib

import pytest
from aiohttp import web

from leveret.broker.runtime.http_answers import AnswerError, content_of, open_session
from tests.feature import served

BOMB = gzip.compress(bytes(5_000_000), 9)


@pytest.fixture(autouse=True)
def _nothing_is_decompressed(monkeypatch):
    monkeypatch.setattr(zlib, "decompressobj", lambda *_: pytest.fail("it is decompressed"))


async def content(body, bytes_max=1000, **headers):
    """What a node reads of an answer."""

    async def handle(request):
        assert request.headers["Accept-Encoding"] == "identity"
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return web.Response(body=body, headers=named)

    application = web.Application()
    application.router.add_get("/", handle)
    async with (
        served.serving(application) as url,
        open_session() as session,
        session.get(url) as response,
    ):
        return await content_of(response, bytes_max)


@pytest.mark.parametrize("headers", [{}, {"Content_Encoding": "Identity"}])
async def test_the_content(headers):
    assert await content(b"allow", **headers) == b"allow"


@pytest.mark.parametrize("coding", ["gzip", "deflate", "br", "zstd", "odd", "gzip, gzip"])
async def test_a_compressed_body_is_refused(coding):
    with pytest.raises(AnswerError, match=f"is compressed \\('{coding}'\\), which was not asked"):
        await content(BOMB, Content_Encoding=coding)


async def test_a_body_that_is_too_long_is_refused():
    assert len(await content(b"a" * 1000)) == 1000
    with pytest.raises(AnswerError, match="is too long: it has more than 1000 bytes"):
        await content(b"a" * 1001)
