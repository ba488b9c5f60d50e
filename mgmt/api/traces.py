"""Traces and their files: the API of RabbitMQ's tracing plugin, with additions."""

import asyncio
from pathlib import Path
from typing import Any

import aiofiles.os
from aiohttp import web

from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.json_form import text
from leveret.broker.auth.identity import LoginAttempt
from leveret.broker.runtime.pending_in_task import finish, in_task
from leveret.broker.tracing.trace import Trace, TraceError, of_json
from leveret.broker.tracing.trace_files import trace_file, trace_files
from leveret.broker.tracing.traces import Running, trace_view
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.errors import bad_request, not_found
from leveret.mgmt.api.file_pieces import file_of_node, read_piece
from leveret.mgmt.api.other_nodes import other_nodes
from leveret.mgmt.api.passed_requests import FilePieceRequest
from leveret.mgmt.api.routes import Answerer, Created, NoContent, route

GZIP = ".gz"
TRACE = "trace"


def _prepare(call: Call) -> None:
    """Raise 401 unless the user is an administrator, and 400 if the path names another node."""
    call.require_administrator()
    node = call.request.match_info.get("node", call.node.name)
    if node != call.node.name:
        raise bad_request(f"Node {node} could not be contacted: {{badrpc,nodedown}}")


def _view(running: Running) -> dict[str, Any]:
    view = trace_view(running)
    view["vhost"], view["name"] = text(view["vhost"]), text(view["name"])
    return view


@route(
    "GET",
    "/traces",
    "/traces/node/{node}",
    "/traces/{vhost}",
    "/traces/node/{node}/{vhost}",
    answered_by=Answerer.NODE_IN_PATH,
)
async def list_traces(call: Call) -> Any:
    """Traces of all vhosts, or of one."""
    _prepare(call)
    vhost = call.request.match_info.get("vhost")
    traces = call.facade.traces
    return [_view(running) for running in traces if vhost in (None, running.trace.vhost)]


def _running(call: Call) -> Running:
    running = call.facade.traces.get(call.vhost(), call.path("name"))
    if running is None:
        raise not_found()
    return running


@route(
    "GET",
    "/traces/{vhost}/{name}",
    "/traces/node/{node}/{vhost}/{name}",
    answered_by=Answerer.NODE_IN_PATH,
)
async def show_trace(call: Call) -> Any:
    """One trace."""
    _prepare(call)
    return _view(_running(call))


@route(
    "PUT",
    "/traces/{vhost}/{name}",
    "/traces/node/{node}/{vhost}/{name}",
    answered_by=Answerer.NODE_IN_PATH,
)
async def put_trace(call: Call) -> Any:
    """Start a trace. A running one cannot be changed."""
    _prepare(call)
    vhost = call.vhost()
    body = await call.body("format", "pattern")
    try:
        trace = of_json(vhost, call.path("name"), body)
        await _check_login(call, trace, body.get("tracer_connection_password"))
        text = f"Starting trace '{trace.name}' in virtual host '{vhost}'"
        await call.note("trace.started", TRACE, trace.name, text, vhost)
        await in_task(call.facade.begin_trace(trace, call.identity.name))
    except TraceError as error:
        raise bad_request(str(error)) from None
    return Created()


async def _check_login(call: Call, trace: Trace, password: Any) -> None:
    """Check the password of the user that a trace names. Raises TraceError."""
    if not isinstance(password, str | None):
        raise TraceError("tracer_connection_password should be a text")
    if not trace.username:
        return
    attempt = LoginAttempt(trace.username, password or "", call.peer_host, "a trace")
    access = call.facade.access
    identity = await access.log_in(attempt)
    if identity is None:
        raise TraceError(f"tracer_connection_username: {trace.username!r} cannot log in")
    try:
        await finish(access.check_vhost(identity, trace.vhost, call.peer_host))
    except ConnectionFault as fault:
        raise TraceError(f"tracer_connection_username: {fault.reply_text}") from None


@route(
    "DELETE",
    "/traces/{vhost}/{name}",
    "/traces/node/{node}/{vhost}/{name}",
    answered_by=Answerer.NODE_IN_PATH,
)
async def delete_trace(call: Call) -> Any:
    """Stop a trace; its files stay."""
    _prepare(call)
    running = _running(call)
    name, vhost = running.trace.name, call.vhost()
    text = f"Stopping trace '{name}' in virtual host '{vhost}'"
    await call.note("trace.stopped", TRACE, name, text, vhost)
    ended = call.facade.end_trace(vhost, name, call.identity.name)
    await in_task(ended)
    return NoContent()


# Files


@route("GET", "/trace-files", "/trace-files/node/{node}", answered_by=Answerer.NODE_IN_PATH)
async def list_trace_files(call: Call) -> Any:
    """The files of traces, including those that are being written."""
    _prepare(call)
    found = await asyncio.to_thread(trace_files, call.facade.traces.directory)
    return [{"name": text(file.name), "size": file.size} for file in found]


async def _file_of(call: Call) -> Path:
    """The file that the path names. Raises 404."""
    path = await asyncio.to_thread(trace_file, call.facade.traces.directory, call.path("name"))
    if path is None:
        raise not_found()
    return path


@route("GET", "/trace-files/{name}", "/trace-files/node/{node}/{name}", is_linked=True)
async def get_trace_file(call: Call) -> Any:
    """Download a file, as text or compressed, from any node."""
    call.require_administrator()
    name, node = call.path("name"), call.request.match_info.get("node", call.node.name)
    kind = "application/gzip" if GZIP in Path(name).suffixes else "text/plain"
    if node != call.node.name and node in other_nodes(call):
        return await file_of_node(call, node, kind)
    _prepare(call)
    path = await _file_of(call)
    if isinstance(call.part, FilePieceRequest):
        return await read_piece(path, call.part)
    return web.FileResponse(path, headers={"Content-Type": kind})


@route(
    "DELETE",
    "/trace-files/{name}",
    "/trace-files/node/{node}/{name}",
    answered_by=Answerer.NODE_IN_PATH,
)
async def delete_trace_file(call: Call) -> Any:
    """Delete a file. A trace that still writes it creates it again."""
    _prepare(call)
    path = await _file_of(call)
    await call.note("trace.file.deleted", TRACE, path.name, f"Deleting trace file '{path.name}'")
    try:
        await aiofiles.os.remove(path)
    except OSError as error:
        raise bad_request(f"the file cannot be deleted: {error.strerror}") from None
    return NoContent()
