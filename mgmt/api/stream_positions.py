"""Positions in a stream: copying messages from one on to a queue, and where consumers go on.

The client asks for one part of a copy after the other, so the copy ends with its client, and can go
on where it has stopped (node_facade/stream_positions.py).
"""

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any, Final

from leveret.broker.amqp.json_form import text
from leveret.broker.queues.contract.offset_specification import (
    OFFSET,
    TIMESTAMP,
    OffsetSpecification,
    read_offset,
)
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.sessions.direct import DirectConnection
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import acting
from leveret.mgmt.api.errors import ApiError, bad_request, conflict
from leveret.mgmt.api.routes import route
from leveret.mgmt.node_facade import stream_positions

NAME_BYTES_MAX: Final = 255
INTERNAL_SERVER_ERROR: Final = 500
OFFSETS, WRITERS = "offset", "writer"
_DIGITS = re.compile("[0-9]{1,18}", re.ASCII)


@route("POST", "/stream/{vhost}/{queue}/copy")
async def copy_part(call: Call) -> Any:
    """Copy the next messages from one position of a stream on, up to another one."""
    body = await call.body("queue", "from", "to")
    vhost, stream, queue = call.vhost(), call.path("queue"), str(body["queue"])
    start, stop = (position_of(body[key], key) for key in ("from", "to"))
    if stream == queue:
        raise bad_request(f"stream '{stream}' cannot be copied to itself: name another queue")
    with using(call, vhost) as connection:
        await connection.check(QUEUE, stream, "read")
        await connection.check(QUEUE, queue, "write")
        if not body.get("goes_on"):
            said = f"Copying messages of {resource(QUEUE, stream, vhost)} to queue '{queue}'"
            await call.note("stream.copied", QUEUE, stream, said, vhost)
        part = await stream_positions.copy_part(connection.vhost, stream, queue, start, stop)
    if part.refused:
        raise conflict(f"queue '{queue}' refused {part.refused} of {part.taken} messages")
    return part._asdict()


@route("GET", "/stream/{vhost}/{queue}/tracking")
async def show_tracking(call: Call) -> Any:
    """The stored offsets of a stream's consumers, and the last publishing ids of its writers."""
    vhost, stream, kind = call.vhost(), call.path("queue"), call.query("type")
    with using(call, vhost) as connection:
        await connection.check(QUEUE, stream, "read")
        tracked = await stream_positions.tracked(connection.vhost, stream)
    shown = {}
    if kind != WRITERS:
        shown["offsets"] = _by_name(tracked.offsets)
    if kind != OFFSETS:
        shown["writers"] = _by_name(tracked.sequences)
    return shown


@route("POST", "/stream/{vhost}/{queue}/offsets")
async def store_offset(call: Call) -> Any:
    """Store an offset under a consumer's name: it goes on with the message at a position."""
    body = await call.body("name", "to")
    vhost, stream = call.vhost(), call.path("queue")
    reference = str(body["name"]).encode("utf-8", "surrogateescape")
    if not 0 < len(reference) <= NAME_BYTES_MAX:
        raise bad_request(f"a consumer's name has 1 to {NAME_BYTES_MAX} bytes")
    position = position_of(body["to"], "to")
    with using(call, vhost) as connection:
        await connection.check(QUEUE, stream, "read")
        said = f"Storing an offset for a consumer of {resource(QUEUE, stream, vhost)}"
        await call.note("stream.offset_stored", QUEUE, stream, said, vhost)
        done = await stream_positions.store_offset(connection.vhost, stream, reference, position)
    return done._asdict()


def position_of(given: Any, key: str) -> OffsetSpecification:
    """A position: an offset, a time, or a name of x-stream-offset. Raises 400."""
    position = str(given)
    if _DIGITS.fullmatch(position):
        return OffsetSpecification(OFFSET, int(position))
    found = read_offset(("S", position), time.time())
    if found is not None:
        return found
    try:
        at = datetime.fromisoformat(position)
        at = at if at.tzinfo else at.replace(tzinfo=UTC)
        return OffsetSpecification(TIMESTAMP, max(0, int(at.timestamp() * 1000)))
    except (ValueError, OverflowError):
        raise bad_request(
            f"'{key}' is '{position}', and must be an offset, a time such as 2026-01-31T12:00:00 "
            "(in UTC, unless it says otherwise), an interval such as 1h (ago), first, last or next"
        ) from None


@contextmanager
def using(call: Call, vhost: str) -> Iterator[DirectConnection]:
    """Act as the user of a request. 503 if the stream has no leader, or no member that answers."""
    try:
        with acting(call, vhost) as connection:
            yield connection
    except ApiError as error:
        if error.status != INTERNAL_SERVER_ERROR:
            raise
        raise ApiError(503, "service_unavailable", error.reason) from None


def _by_name(numbers: dict[bytes, int]) -> dict[str, int]:
    return {text(name.decode("utf-8", "surrogateescape")): one for name, one in numbers.items()}
