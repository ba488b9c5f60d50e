"""Copies messages of a stream to a queue, and stores the offset with which a consumer goes on.

The client asks for one part of a copy after the other, so the copy ends with its client, and can go
on where it has stopped (node_facade/stream_positions.py).
"""

import re
import time
from datetime import UTC, datetime
from typing import Any, Final

from leveret.broker.queues.contract.offset_specification import (
    OFFSET,
    TIMESTAMP,
    OffsetSpecification,
    read_offset,
)
from leveret.broker.runtime.names import QUEUE, resource
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import acting
from leveret.mgmt.api.errors import bad_request, conflict
from leveret.mgmt.api.routes import route
from leveret.mgmt.node_facade import stream_positions

NAME_BYTES_MAX: Final = 255
_DIGITS = re.compile("[0-9]{1,18}", re.ASCII)


@route("POST", "/node/stream-copies", control_only=True)
async def copy_part(call: Call) -> Any:
    """Copy the next messages from one position of a stream on, up to another one."""
    body = await call.body("vhost", "stream", "queue", "from", "to")
    vhost, stream, queue = (str(body[key]) for key in ("vhost", "stream", "queue"))
    start, stop = (_position(body[key], key) for key in ("from", "to"))
    if stream == queue:
        raise bad_request(f"stream '{stream}' cannot be copied to itself: name another queue")
    with acting(call, vhost) as connection:
        await connection.check(QUEUE, stream, "read")
        await connection.check(QUEUE, queue, "write")
        if not body.get("goes_on"):
            said = f"Copying messages of {resource(QUEUE, stream, vhost)} to queue '{queue}'"
            await call.note("stream.copied", QUEUE, stream, said, vhost)
        part = await stream_positions.copy_part(connection.vhost, stream, queue, start, stop)
    if part.refused:
        raise conflict(f"queue '{queue}' refused {part.refused} of {part.taken} messages")
    return part._asdict()


@route("POST", "/node/stream-offsets", control_only=True)
async def store_offset(call: Call) -> Any:
    """Store an offset under a consumer's name: it goes on with the message at a position."""
    body = await call.body("vhost", "stream", "name", "to")
    vhost, stream = str(body["vhost"]), str(body["stream"])
    reference = str(body["name"]).encode("utf-8", "surrogateescape")
    if not 0 < len(reference) <= NAME_BYTES_MAX:
        raise bad_request(f"a consumer's name has 1 to {NAME_BYTES_MAX} bytes")
    position = _position(body["to"], "to")
    with acting(call, vhost) as connection:
        await connection.check(QUEUE, stream, "read")
        said = f"Storing an offset for a consumer of {resource(QUEUE, stream, vhost)}"
        await call.note("stream.offset_stored", QUEUE, stream, said, vhost)
        done = await stream_positions.store_offset(connection.vhost, stream, reference, position)
    return done._asdict()


def _position(given: Any, key: str) -> OffsetSpecification:
    """A position: an offset, a time, or a name of x-stream-offset. Raises 400."""
    text = str(given)
    if _DIGITS.fullmatch(text):
        return OffsetSpecification(OFFSET, int(text))
    found = read_offset(("S", text), time.time())
    if found is not None:
        return found
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise bad_request(
            f"'{key}' is '{text}', and must be an offset, a time such as 2026-01-31T12:00:00 (in "
            "UTC, unless it says otherwise), an interval such as 1h (ago), first, last or next"
        ) from None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return OffsetSpecification(TIMESTAMP, max(0, int(at.timestamp() * 1000)))
