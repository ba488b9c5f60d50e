"""Files of messages and declarations discarded after a partition (docs/reference/http-api.md)."""

import asyncio
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from leveret.broker.amqp.errors import Fault
from leveret.broker.amqp.json_form import text
from leveret.cluster.partitions.leftovers.files import (
    PUBLISHED,
    DiscardedReader,
    NotReadable,
    files,
    note_published,
)
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import ApiError, bad_request, conflict, from_fault, not_found
from leveret.mgmt.api.routes import route
from leveret.mgmt.views.discarded import content_view, file_view


async def _files(call: Call) -> list[Path]:
    data_dir = call.node.data_dir
    return [] if data_dir is None else await asyncio.to_thread(lambda: list(files(data_dir)))


async def _file(call: Call, name: str) -> Path:
    """One of the node's files. Raises 404."""
    found = [path for path in await _files(call) if path.name == name]
    if not found:
        raise not_found(
            f"the node has discarded nothing to a file {name}: 'leveretctl list_discarded' shows"
            " its files"
        )
    return found[0]


@route("GET", "/node/discarded", control_only=True, works_stopped=True)
async def list_discarded(call: Call) -> Any:
    """All files, the oldest first."""
    return [await asyncio.to_thread(file_view, path) for path in await _files(call)]


@route("GET", "/node/discarded/{file}", control_only=True, works_stopped=True)
async def show_discarded(call: Call) -> Any:
    """What is in a file: declarations, and queues with the numbers of their messages."""
    path = await _file(call, call.path("file"))
    try:
        return await asyncio.to_thread(content_view, path)
    except NotReadable as error:
        raise bad_request(str(error)) from None


@route("POST", "/node/publish-discarded", control_only=True)
async def publish_discarded(call: Call) -> Any:
    """Publish the messages of a file to their queues again; declare these first if that is asked.

    A file of which nothing is left out is marked, so that it is not published twice.
    """
    body = await call.body("file")
    path = await _file(call, str(body["file"]))
    if path.suffix == PUBLISHED:
        raise conflict(f"the messages of {path.name} were published already")
    await call.note(
        "cluster.discarded.published", "file", path.name, f"Publishing the messages of {path.name}"
    )
    try:
        reader = await asyncio.to_thread(DiscardedReader, path)
        try:
            done = await call.facade.publish_leftovers(
                reader, call.requester, declares=bool(body.get("declare"))
            )
        finally:
            reader.close()
        if not done.refused and not done.skipped:
            await asyncio.to_thread(note_published, path)
    except NotReadable as error:
        raise bad_request(str(error)) from None
    except Fault as fault:
        raise from_fault(fault) from None
    except OSError as error:
        raise ApiError(500, "discarded", f"{path} cannot be read: {error.strerror}") from None
    return {
        "declared": done.declared, "published": done.published, "refused": done.refused,
        "skipped": done.skipped,
        "missing": _named(done.missing), "missing_exchanges": _named(done.missing_exchanges),
    }  # fmt: skip


def _named(places: Iterable[tuple[str, str]]) -> list[dict[str, str]]:
    return [{"vhost": text(vhost), "name": text(name)} for vhost, name in places]
