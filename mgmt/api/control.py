"""Control of the node: routes that only the control socket has (docs/reference/http-api.md)."""

import asyncio
import logging
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from leveret.broker.amqp.json_form import text
from leveret.broker.auth.identity import HTTP, LoginAttempt
from leveret.broker.config import SettingError, explain
from leveret.broker.config.value_kinds import fraction, size, with_letters_of_4
from leveret.broker.resources.garbage_collections import collect_everything
from leveret.cluster.membership.membership_changes import ClusterError
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.clients import CLOSED_BY_MANAGEMENT
from leveret.mgmt.api.errors import ApiError, bad_request, conflict
from leveret.mgmt.api.health import environment
from leveret.mgmt.api.other_nodes import ask_for_part, other_nodes
from leveret.mgmt.api.routes import NoContent, route
from leveret.mgmt.events.event_stream import EventStream
from leveret.mgmt.log.levels import LEVELS
from leveret.mgmt.log.outputs import set_level
from leveret.mgmt.running_node import NodeError, StartEnded
from leveret.mgmt.views.nodes import status

MAINTENANCE = "node is being put into maintenance"
CLIENT_CHECK_SECONDS = 0.5
"""How often a stream of events checks whether its client is still connected."""
CATEGORIES = ("connection", "channel", "queue", "auth", "memory", "disk", "broker", "tls")

logger = logging.getLogger("leveret")


@route("GET", "/node/ping", control_only=True, works_stopped=True)
async def ping(call: Call) -> Any:
    """Whether the broker of this process is running."""
    node = call.node
    return {
        "status": "ok", "node": node.name, "is_running": node.facade is not None,
        "is_booting": node.is_booting,
    }  # fmt: skip


@route("GET", "/node/status", control_only=True, works_stopped=True)
async def show_status(call: Call) -> Any:
    """What `rabbitmqctl status` shows."""
    return status(call.node)


LIMITS = (
    ("absolute", size(), "a size: a number of bytes, or one with a unit such as 512MB or 2GiB"),
    ("relative", fraction(), "a fraction of the memory, such as 0.4"),
)
"""The kinds of limits, with the parser and the description of each."""


@route("GET", "/node/environment", control_only=True, works_stopped=True)
async def show_environment(call: Call) -> Any:
    """Every setting."""
    return environment(call)


async def _note(call: Call, action: str, text: str) -> None:
    await call.note(action, "node", call.node.name, text)


async def _amount(call: Call) -> tuple[str, float]:
    """The kind of limit, `absolute` (bytes) or `relative` (a share), and its value. Raises 400."""
    body = await call.body()
    for kind, reader, what in LIMITS:
        if kind in body:
            text = str(body[kind])
            if call.node.config.is_as_rabbitmq_4 and reader.has_letters:
                text = with_letters_of_4(text)
            try:
                return kind, float(reader.read(text))
            except ValueError:
                raise bad_request(f"'{body[kind]}' is not {what}") from None
    raise bad_request("the body must have the key absolute or relative")


@route("PUT", "/node/vm-memory-high-watermark", control_only=True)
async def set_memory_limit(call: Call) -> Any:
    """Set the memory limit until the node stops."""
    kind, value = await _amount(call)
    monitor = call.node.memory_monitor
    if monitor is None:
        raise conflict("memory is not monitored on this node")
    await _note(call, "memory.limit.set", f"Setting the memory limit to {value:g} ({kind})")
    call.node.memory_watermark = kind, value
    monitor.set_limit(int(value if kind == "absolute" else value * call.node.total_memory))
    monitor.check()
    return NoContent()


@route("PUT", "/node/disk-free-limit", control_only=True)
async def set_disk_limit(call: Call) -> Any:
    """Set the limit on free disk space until the node stops."""
    kind, value = await _amount(call)
    monitor = call.node.disk_monitor
    if monitor is None:
        raise conflict("the disk is not monitored on this node")
    await _note(call, "disk.limit.set", f"Setting the limit of free disk to {value:g} ({kind})")
    monitor.limit_bytes = int(value if kind == "absolute" else value * call.node.total_memory)
    monitor.check()
    return NoContent()


@route("PUT", "/node/log-level", control_only=True, works_stopped=True)
async def set_log_level(call: Call) -> Any:
    """Set the log level until the node stops."""
    body = await call.body("level")
    level, category = str(body["level"]).lower(), body.get("category")
    if level not in LEVELS:
        raise bad_request(f"'{body['level']}' is not a log level")
    if category is not None and category not in CATEGORIES:
        raise bad_request(f"category must be one of {', '.join(CATEGORIES)}")
    text = f"Setting the log level of {category or 'all categories'} to {level}"
    await _note(call, "log.level.set", text)
    set_level(level, category)
    return NoContent()


@route("POST", "/node/rotate-logs", control_only=True, works_stopped=True)
async def rotate_logs(call: Call) -> Any:
    """Close and reopen the log files."""
    call.node.rotate_logs()
    return NoContent()


@route("GET", "/node/log", control_only=True, works_stopped=True)
async def show_log(call: Call) -> Any:
    """The last lines of the log, which are kept in memory if there is no log file."""
    recent = call.node.recent_log
    if recent is None:
        raise conflict("the lines of the log are in its file: see log_location")
    after = call.number("after", -1)
    found = recent.last(max(0, call.number("count", 50))) if after < 0 else recent.after(after)
    return {"lines": [text(line) for line in found.lines], "last_number": found.last_number}


@route("POST", "/node/stop-app", control_only=True, works_stopped=True)
async def stop_app(call: Call) -> Any:
    """Stop the broker, also one that waits for other nodes in its start; the process stays."""
    await _note(call, "broker.stopped", "Stopping the broker")
    await call.node.stop_broker()
    return NoContent()


@route("POST", "/node/start-app", control_only=True, works_stopped=True)
async def start_app(call: Call) -> Any:
    """Start the broker again."""
    if call.node.is_booting:
        raise conflict("the broker is starting: try again when it has started")
    await _note(call, "broker.started", "Starting the broker")
    try:
        await call.node.start_broker()
    except SettingError as error:
        raise ApiError(500, "cannot_start", explain(call.node.config, error)) from None
    except (ClusterError, OSError) as error:
        raise ApiError(500, "cannot_start", str(error)) from None
    except StartEnded as error:
        raise conflict(str(error)) from None
    return NoContent()


@route("POST", "/node/suspend-listeners", control_only=True)
async def suspend_listeners(call: Call) -> Any:
    """Stop accepting new clients."""
    await _note(call, "listeners.suspended", "Suspending all listeners")
    call.facade.suspend_listeners()
    return NoContent()


@route("POST", "/node/resume-listeners", control_only=True)
async def resume_listeners(call: Call) -> Any:
    """Accept clients again."""
    await _note(call, "listeners.resumed", "Resuming all listeners")
    await _resume(call)
    return NoContent()


async def _resume(call: Call) -> None:
    try:
        call.facade.resume_listeners()
    except SettingError as error:
        raise ApiError(500, "cannot_listen", explain(call.node.config, error)) from None


@route("POST", "/node/drain", control_only=True)
async def drain(call: Call) -> Any:
    """Put the node into maintenance: disconnect all clients and accept no new ones."""
    await _note(call, "node.drained", "Putting this node into maintenance mode")
    call.node.set_under_maintenance(True)
    call.facade.suspend_listeners()
    connections = call.facade.connections()
    for connection in connections:
        connection.drain()
    logger.warning("closed %d connections of clients; no new ones are accepted", len(connections))
    await _leaders_handed_over(call)
    _notify(call, "maintenance.connections.closed", reason=MAINTENANCE)
    _notify(call, "maintenance.draining", reason=MAINTENANCE)
    return NoContent()


async def _leaders_handed_over(call: Call) -> None:
    """Wait until other nodes lead the quorum queues of this one that have other members."""
    cluster = call.node.cluster
    if cluster is not None and not await cluster.leaders_handed_over():
        logger.warning("this node still leads quorum queues: no other member of them can lead")


@route("POST", "/node/revive", control_only=True)
async def revive(call: Call) -> Any:
    """End maintenance: accept clients again."""
    await _note(call, "node.revived", "Ending the maintenance mode of this node")
    await _resume(call)
    call.node.set_under_maintenance(False)
    _notify(call, "maintenance.revived")
    return NoContent()


def _notify(call: Call, event: str, **facts: Any) -> None:
    events = call.facade.events
    if events.are_wanted:
        events.notify(event, facts)


@route("POST", "/node/collect-garbage", control_only=True, works_stopped=True)
async def collect_garbage(call: Call) -> Any:
    """Run the garbage collector."""
    return {"collected": collect_everything()}


@route("POST", "/node/reset", control_only=True, works_stopped=True)
async def reset(call: Call) -> Any:
    """Remove all definitions and messages."""
    if call.node.is_stopped:
        text = "Resetting this node: removing all definitions and messages"
        await _note(call, "node.reset", text)
    try:
        call.node.reset()
    except NodeError as error:
        raise conflict(str(error)) from None
    return NoContent()


@route("POST", "/node/stop", control_only=True, works_stopped=True)
async def stop(call: Call) -> Any:
    """Stop the process after this request is answered."""
    await _note(call, "node.stopped", "Stopping this node")
    asyncio.get_running_loop().call_later(0.05, call.node.stop_requested.set)
    return NoContent()


@route("POST", "/node/check-password", control_only=True)
async def check_password(call: Call) -> Any:
    """Check a user's password."""
    body = await call.body("username", "password")
    attempt = LoginAttempt(
        str(body["username"]), str(body["password"]), call.peer_host, protocol=HTTP
    )
    if await call.facade.access.log_in(attempt) is None:
        raise ApiError(401, "not_authorised", "the user does not exist or the password is wrong")
    return NoContent()


@route("POST", "/node/close-connections", control_only=True)
async def close_connections(call: Call) -> Any:
    """Close all connections, or those of a vhost or user, up to a maximum number, on all nodes."""
    body = await call.body()
    reason = str(body.get("reason") or CLOSED_BY_MANAGEMENT)
    vhost, user, limit = body.get("vhost"), body.get("user"), body.get("limit") or 0
    text = f"Closing connections because '{reason}'"
    await call.note("connection.closed", "node", call.node.name, text, str(vhost or ""),
                    {"user": user, "limit": limit})  # fmt: skip
    closed = 0
    for connection in call.facade.connections():
        if vhost not in (None, connection.vhost) or user not in (None, connection.user):
            continue
        if limit and closed >= limit:
            break
        connection.close(reason)
        closed += 1
    for node in other_nodes(call):
        if limit and closed >= limit:
            break
        left = {**body, "limit": limit - closed if limit else 0}
        answer = await ask_for_part(call, node, body=msgspec.json.encode(left))
        closed += 0 if answer is None else msgspec.json.decode(answer)["closed"]
    return {"closed": closed}


@route("GET", "/node/events", control_only=True)
async def stream_events(call: Call) -> Any:
    """Stream events, a line of JSON each, until the client disconnects or the broker stops."""
    node, facade, stream = call.node, call.facade, EventStream()
    response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
    facade.events.listen(stream.add)
    sending = asyncio.ensure_future(_send_events(stream, call.http_request, response))
    try:
        while not sending.done() and node.facade is facade and not node.stop_requested.is_set():
            await asyncio.wait([sending], timeout=CLIENT_CHECK_SECONDS)
    finally:
        facade.events.forget(stream.add)
        sending.cancel()
    with suppress(asyncio.CancelledError):
        await sending
    transport = call.http_request.transport
    if transport is not None and transport.get_write_buffer_size():
        # A client that does not read must not delay the stop of the node.
        transport.abort()
    return response


async def _send_events(
    stream: EventStream, request: web.Request, response: web.StreamResponse
) -> None:
    await response.prepare(request)
    while request.transport is not None:
        lines = await stream.take(CLIENT_CHECK_SECONDS)
        if not lines:
            continue
        try:
            await response.write(lines)
        except ConnectionError:
            # The client has disconnected.
            return
