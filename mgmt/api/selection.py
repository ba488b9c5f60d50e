"""The messages that the dead-letter workbench acts on, chosen by their ids or by a filter.

A queue is read with a cursor, READ_BYTES at a time, and the node does other work after each message
(mgmt/slices.py): memory and the turn of the event loop stay bounded, however long the queue is and
however much of it is only on disk.
"""

import re
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.amqp.field_table import Field
from leveret.broker.amqp.json_form import field_to_json
from leveret.broker.queues.classic.inspection import Inspection
from leveret.broker.queues.delivery.reading import read_on
from leveret.broker.runtime.patterns import OutOfTimeError
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import connect
from leveret.mgmt.api.errors import ApiError, bad_request, from_fault, not_found
from leveret.mgmt.api.text_patterns import TextPattern, compile_text_pattern
from leveret.mgmt.slices import GiveWay
from leveret.storage.contract.backing_queue import Cursor, Unreadable
from leveret.storage.messages.message import Entry, Message

READ_BYTES = 128 * 1024
"""Some hundreds of small messages, read from disk in about a millisecond."""


class PatternFilter:
    """The filter for messages. Raises 400 for a bad expression."""

    def __init__(self, headers: list[str], body: str, routing_key: str) -> None:
        self._headers = [self._header(one) for one in headers]
        self._body = self._compiled(body, "body")
        self._routing_key = self._compiled(routing_key, "routing_key")
        self.takes_all = not (headers or body or routing_key)

    @staticmethod
    def _compiled(pattern: str, what: str) -> TextPattern | None:
        if not pattern:
            return None
        try:
            return compile_text_pattern(pattern)
        except re.error as error:
            reason = f"{what}: '{pattern:.99}' is not a valid regular expression: {error}"
            raise bad_request(reason) from None

    def _header(self, expression: str) -> tuple[str, TextPattern | None]:
        name, _, pattern = expression.partition(":")
        return name, self._compiled(pattern, "header")

    def takes(self, entry: Entry) -> bool:
        """Whether a message matches. Raises 400 for an expression that takes too long."""
        try:
            return self._takes(entry)
        except OutOfTimeError:
            raise bad_request("header, body or routing_key takes too long to match") from None

    def _takes(self, entry: Entry) -> bool:
        message = entry.message
        key = self._routing_key
        if key is not None and not key.is_found_in(message.address.routing_key):
            return False
        for name, pattern in self._headers:
            field = header_of(entry).headers.get(name)
            if field is None or (pattern and not pattern.is_found_in(_text_of(field))):
                return False
        if self._body is None:
            return True
        return self._body.is_found_in(message.body.decode("utf-8", "replace"))


def _text_of(field: Field) -> str:
    """What is searched of a header: a text, or the JSON of another value."""
    value = field_to_json(field)
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def header_of(entry: Entry) -> ContentHeader:
    """The header of a message, which a client has published."""
    return header_of_message(entry.message)


def header_of_message(message: Message) -> ContentHeader:
    """The header of a message of a queue."""
    header = message.header
    assert isinstance(header, ContentHeader)
    return header


def filter_of(source: Any) -> PatternFilter:
    """A query's or a body's filters."""
    if isinstance(source, Call):
        headers = source.request.query.getall("header", [])
        return PatternFilter(headers, source.query("body"), source.query("routing_key"))
    headers = source.get("header") or []
    listed = [headers] if isinstance(headers, str) else headers
    body, routing_key = source.get("body") or "", source.get("routing_key") or ""
    if not isinstance(listed, list) or not all(
        isinstance(one, str) for one in (*listed, body, routing_key)
    ):
        raise bad_request("header, body and routing_key must be texts; header may be a list")
    return PatternFilter(listed, body, routing_key)


async def inspected(call: Call) -> tuple[str, Inspection]:
    """The vhost, and the messages of the queue that the path names.

    Raises 404; 401 unless the user may read it; 400 if its messages are on another node, and if it
    is exclusive to a connection: no other user may read it.
    """
    vhost = call.vhost()
    queue = call.facade.declared_queue(vhost, call.path("queue"))
    if queue is None:
        raise not_found()
    if not call.facade.has_inspection(vhost, queue.name):
        raise bad_request(f"the messages of a {queue.kind} queue cannot be inspected")
    inspection = call.facade.inspection(vhost, queue.name)
    if inspection is None:
        raise bad_request("the queue is mirrored, and no node leads it now: try again")
    try:
        with connect(call, vhost) as connection:
            await connection.check_readable(inspection.queue)
    except (ChannelFault, ConnectionFault) as fault:
        raise from_fault(fault) from None
    return vhost, inspection


async def read_next(cursor: Cursor) -> list[Entry]:
    """The next messages. Raises 503 if they cannot be read from disk."""
    with readable():
        return await read_on(cursor, READ_BYTES)


@contextmanager
def readable() -> Iterator[None]:
    """A block that reads messages. Raises 503 if they cannot be read from disk."""
    try:
        yield
    except Unreadable as error:
        raise ApiError(503, "service_unavailable", str(error)) from None


async def read(
    inspection: Inspection, give_way: GiveWay, position: int = 0
) -> AsyncGenerator[Entry, None]:
    """The ready messages from a position on, with the node's other work between them."""
    cursor = inspection.cursor(position)
    try:
        while entries := await read_next(cursor):
            for entry in entries:
                yield entry
                await give_way()
    finally:
        cursor.close()


class Selection:
    """The messages that a request's body chooses: `ids`, or `all` that match its filters."""

    def __init__(self, inspection: Inspection, body: dict[str, Any]) -> None:
        """Raises 400 if it chooses none."""
        self.inspection = inspection
        self.takes_all = body.get("all") is True
        ids = body.get("ids") or []
        if not isinstance(ids, list) or (not ids and not self.takes_all):
            raise bad_request("ids must be a list of messages, or all must be true")
        self.ids = sorted(set(map(str, ids)))
        self.filter = filter_of(body)

    async def entries(self, give_way: GiveWay) -> AsyncGenerator[Entry, None]:
        """The chosen messages, which stay in the queue. Raises 400 as `PatternFilter.takes`."""
        if self.takes_all:
            async for entry in read(self.inspection, give_way):
                if self.filter.takes(entry):
                    yield entry
            return
        for one in self.ids:
            with readable():
                found = await self.inspection.find(one)
            if found is not None:
                yield found
            await give_way()
