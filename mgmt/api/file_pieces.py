"""A file of another node as a response to a client of this one, fetched piece by piece.

The request is passed on to the file's node once for each piece (other_nodes.py), which checks its
user each time. One piece is in memory, and the next one is requested when the client has room. Of a
file that grows during the download, only its size at the start is sent; if it is removed, or its
node goes down, the connection to the client is closed before all octets were sent.
"""

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from aiohttp import web

from leveret.cluster.rpc.rpc import NotAnswered
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, not_found
from leveret.mgmt.api.other_nodes import ask, result_of
from leveret.mgmt.api.passed_requests import FilePiece, FilePieceRequest

if TYPE_CHECKING:
    from aiohttp.abc import AbstractStreamWriter
    from aiohttp.web_request import BaseRequest

PIECE_OCTETS = 512 * 1024

logger = logging.getLogger("leveret.management")


async def read_piece(path: Path, wanted: FilePieceRequest) -> FilePiece:
    """A piece of a file of this node. Raises 404 if it is gone."""
    try:
        return await asyncio.to_thread(_read, path, wanted.offset)
    except OSError:
        raise not_found() from None


def _read(path: Path, offset: int) -> FilePiece:
    with path.open("rb") as file:
        size = file.seek(0, 2)
        file.seek(offset)
        return FilePiece(size, file.read(PIECE_OCTETS))


async def file_of_node(call: Call, node: str, content_type: str) -> web.StreamResponse:
    """The requested file of another node. Raises ApiError."""
    return FileOfNode(call, node, content_type, await _ask_for_piece(call, node, 0))


async def _ask_for_piece(call: Call, node: str, offset: int) -> FilePiece:
    try:
        answer = await ask(call, node, part=FilePieceRequest(offset), only_own=False)
    except NotAnswered as error:
        raise ApiError(503, "service_unavailable", str(error)) from None
    if answer.status != 200:
        result_of(answer)
    return msgspec.msgpack.decode(answer.content, type=FilePiece)


class FileOfNode(web.StreamResponse):
    """The response. first: the first piece, which has already been fetched."""

    def __init__(self, call: Call, node: str, content_type: str, first: FilePiece) -> None:
        super().__init__(headers={"Content-Type": content_type})
        self.content_length = first.size
        self._call = call
        self._node = node
        self._first = first

    async def prepare(self, request: "BaseRequest") -> "AbstractStreamWriter | None":
        """Send the file. Raises ConnectionError, which closes the connection, if that fails."""
        writer = await super().prepare(request)
        if request.method != "HEAD":
            await self._send()
        return writer

    async def _send(self) -> None:
        size, content = self._first.size, self._first.content
        sent = 0
        while sent < size:
            if not content:
                content = await self._next(sent)
            await self.write(content[: size - sent])
            sent += len(content)
            content = b""

    async def _next(self, offset: int) -> bytes:
        try:
            content = (await _ask_for_piece(self._call, self._node, offset)).content
        except ApiError as error:
            reason = str(error.reason)
        else:
            if content:
                return content
            reason = "it has become shorter"
        logger.error(
            "%s of node %s is not sent completely: %s",
            self._call.request.path, self._node, reason,
        )  # fmt: skip
        raise ConnectionAbortedError(reason)
