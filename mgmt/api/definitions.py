"""Definitions over the API: download, upload, and what an upload would change."""

from typing import Any

import msgspec
from aiohttp import web

from mgmt import definitions
from mgmt.api.call import Call
from mgmt.api.errors import bad_request
from mgmt.api.listing import pick_columns
from mgmt.api.routes import NoContent, route


@route("GET", "/definitions", "/all-configuration", is_linked=True)
async def download(call: Call) -> Any:
    """Everything; with download=NAME as a file of that name."""
    call.require_administrator()
    return _as_file(call, definitions.export(call.broker))


@route("GET", "/definitions/{vhost}", is_linked=True)
async def download_vhost(call: Call) -> Any:
    """What is in a vhost."""
    call.require_administrator()
    if call.path("vhost") not in call.broker.services.vhosts:
        raise bad_request("vhost_not_found")
    return _as_file(call, definitions.export_one(call.broker, call.vhost()))


def _as_file(call: Call, content: Any) -> Any:
    name = call.query("download")
    if not name:
        return content
    if call.query("columns"):
        content = pick_columns(content, call.query("columns"))
    quoted = name.replace('"', "").replace("\r", "").replace("\n", "")
    return web.Response(
        body=msgspec.json.format(msgspec.json.encode(content), indent=2),
        content_type="application/json",
        headers={"Content-Disposition": f'attachment; filename="{quoted}"'},
    )


@route("POST", "/definitions", "/all-configuration")
async def upload(call: Call) -> Any:
    """Import everything."""
    call.require_administrator()
    return await _import(call, None)


@route("POST", "/definitions/{vhost}")
async def upload_vhost(call: Call) -> Any:
    """Import into one vhost."""
    call.require_administrator()
    return await _import(call, call.vhost().name)


async def _import(call: Call, vhost: str | None) -> Any:
    content = await _content(call)
    try:
        if call.query("dry_run") == "true":
            return await definitions.changes(call.broker, content, vhost)
        await definitions.Import(call.broker, content, vhost).run()
    except definitions.DefinitionsError as error:
        problems = [problem._asdict() for problem in error.problems]
        raise bad_request(error.reason, problems=problems) from None
    return NoContent()


async def _content(call: Call) -> Any:
    """The body, or the file in a form that a browser sent."""
    if call.request.content_type.startswith("multipart/"):
        form = await call.request.post()
        field = form.get("file")
        raw = field.file.read() if isinstance(field, web.FileField) else b""
    else:
        raw = await call.request.read()
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise bad_request("failed_to_parse_json") from None
