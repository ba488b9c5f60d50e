"""Definitions: export, import, and a preview of an import."""

import hashlib
from typing import Any

from aiohttp import web

from leveret.mgmt import definitions
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.encoding import encode
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.api.listing import pick_columns
from leveret.mgmt.api.routes import JsonWithEtag, NoContent, has_etag, route


@route("GET", "/definitions", "/all-configuration", is_linked=True)
async def download(call: Call) -> Any:
    """Export all definitions; with download=NAME as a file of that name."""
    call.require_administrator()
    if call.passed is not None or call.query("download") or call.query("columns"):
        return await _as_file(call, await definitions.export(call.facade, call.node.give_way))
    return await _tagged(call)


async def _tagged(call: Call) -> JsonWithEtag:
    """All definitions, with an ETag that shows a standby whether it already has them.

    While nothing is declared, the definitions are only made for a client without this ETag.
    """
    facade, node = call.facade, call.node
    count = facade.performed_count
    exported_count, etag = node.exported
    if count == exported_count and has_etag(call.http_request, etag):
        return JsonWithEtag([], etag)
    parts = await encode(await definitions.export(facade, node.give_way), node.give_way)
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
        await node.give_way()
    node.exported = count, digest.hexdigest()
    return JsonWithEtag(parts, digest.hexdigest())


@route("GET", "/definitions/{vhost}", is_linked=True)
async def download_vhost(call: Call) -> Any:
    """Export the definitions of one vhost."""
    call.require_administrator()
    if not call.facade.has_vhost(call.path("vhost")):
        raise bad_request("vhost_not_found")
    content = await definitions.export_one(call.facade, call.vhost(), call.node.give_way)
    return await _as_file(call, content)


async def _as_file(call: Call, content: Any) -> Any:
    name = call.query("download")
    if not name:
        return content
    if call.query("columns"):
        content = pick_columns(content, call.query("columns"))
    quoted = "".join(letter for letter in name if letter.isprintable() and letter not in '"\\')
    return web.Response(
        body=b"".join(await encode(content, call.node.give_way)),
        content_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{quoted}"'},
    )


@route("POST", "/definitions", "/all-configuration")
async def upload(call: Call) -> Any:
    """Import definitions."""
    call.require_administrator()
    return await _import(call, None)


@route("POST", "/definitions/{vhost}")
async def upload_vhost(call: Call) -> Any:
    """Import definitions into one vhost."""
    call.require_administrator()
    return await _import(call, call.vhost())


async def _import(call: Call, vhost: str | None) -> Any:
    raw, give_way = await _content(call), call.node.give_way
    try:
        wanted = await definitions.read_definitions(raw, vhost, give_way)
        if call.query("dry_run") == "true":
            return await definitions.changes(call.facade, wanted, give_way)
        await definitions.Import(call.facade, wanted, give_way, call.requester).run()
    except definitions.DefinitionsError as error:
        if not error.problems:
            raise bad_request(error.reason) from None
        problems = [problem._asdict() for problem in error.problems]
        raise bad_request(error.reason, problems=problems) from None
    return NoContent()


async def _content(call: Call) -> bytes:
    """The body, or the file in a form that a browser sent. Raises 400 and 408."""
    if call.http_request.content_type.startswith("multipart/"):
        return await call.file()
    return await call.raw_body()
