"""Files of other nodes, piece by piece, with a real server and client."""

from types import SimpleNamespace

import aiohttp
import msgspec
import pytest
from aiohttp import web

from leveret.cluster.rpc.rpc import NotAnswered
from leveret.mgmt.api import file_pieces
from leveret.mgmt.api.errors import ApiError
from leveret.mgmt.api.file_pieces import file_of_node, read_piece
from leveret.mgmt.api.passed_requests import FilePiece, FilePieceRequest, PassedAnswer
from tests.feature.served import serving

OCTETS = 100
CALL = SimpleNamespace(request=SimpleNamespace(path="/api/trace-files/node/b/f"))


class OtherNode:
    """Answers with pieces of a file. asked: for which offsets. before: what happens at one."""

    def __init__(self, content):
        self.content = content
        self.asked, self.before = [], {}

    async def ask(self, call, node, *, part, only_own):
        assert (call, node, only_own) == (CALL, "b", False)
        self.asked.append(part.offset)
        self.before.get(part.offset, lambda: None)()
        piece = FilePiece(len(self.content), self.content[part.offset : part.offset + OCTETS])
        return PassedAnswer(200, msgspec.msgpack.encode(piece))


@pytest.fixture
def other(monkeypatch):
    other = OtherNode(bytes(range(250)))
    monkeypatch.setattr(file_pieces, "ask", other.ask)
    return other


async def download(method="GET"):
    async def handle(request):
        return await file_of_node(CALL, "b", "text/plain")

    application = web.Application()
    application.router.add_route("*", "/", handle)
    async with serving(application) as url, aiohttp.ClientSession() as session:
        async with session.request(method, url) as response:
            return response.content_length, await response.read()


def raising(error):
    def throw():
        raise error

    return throw


async def test_a_file_comes_in_pieces_each_asked_for_once(other):
    assert await download() == (250, other.content)
    assert other.asked == [0, 100, 200]


async def test_an_empty_file_is_one_piece(other):
    other.content = b""
    assert await download() == (0, b"")
    assert other.asked == [0]


async def test_only_the_size_is_asked_for_by_head(other):
    assert await download("HEAD") == (250, b"")
    assert other.asked == [0]


async def test_a_file_that_grows_is_cut_where_it_ended(other):
    before = other.content

    def grow():
        other.content = bytes(999)

    other.before[200] = grow
    size, found = await download()
    assert (size, found[:200], len(found)) == (250, before[:200], 250)


@pytest.mark.parametrize("happens", ["the node goes down", "the file is cut off"])
async def test_a_download_that_cannot_go_on_is_broken_off(other, caplog, happens):
    def cut():
        other.content = other.content[:100]

    goes_down = raising(NotAnswered("node b is not connected"))
    other.before[100] = goes_down if happens == "the node goes down" else cut
    with pytest.raises(aiohttp.ClientPayloadError):
        await download()
    assert "/api/trace-files/node/b/f of node b is not sent completely" in caplog.text


async def test_a_node_that_does_not_answer_is_an_error_of_the_request(other):
    other.before[0] = raising(NotAnswered("node b is not connected"))
    with pytest.raises(ApiError) as refused:
        await file_of_node(CALL, "b", "text/plain")
    assert (refused.value.status, refused.value.reason) == (503, "node b is not connected")


async def test_pieces_of_a_file_are_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(file_pieces, "PIECE_OCTETS", OCTETS)
    path = tmp_path / "f"
    path.write_bytes(bytes(range(250)))
    assert await read_piece(path, FilePieceRequest(0)) == FilePiece(250, bytes(range(100)))
    assert await read_piece(path, FilePieceRequest(200)) == FilePiece(250, bytes(range(200, 250)))
    assert await read_piece(path, FilePieceRequest(300)) == FilePiece(250, b"")
    with pytest.raises(ApiError):
        await read_piece(tmp_path / "missing", FilePieceRequest(0))
