"""Logging in: who is asking, what the pages are to do, hashes of passwords, and logins tried."""

from typing import Any

from broker.auth.passwords import hash_password, hash_to_text
from mgmt.api.call import Call
from mgmt.api.login import log_in, refused
from mgmt.api.overview import require_this_node
from mgmt.api.routes import NoContent, route
from mgmt.views.values import text


@route("GET", "/whoami")
async def whoami(call: Call) -> Any:
    """Who is asking."""
    return {"name": text(call.identity.name), "tags": list(call.identity.tags)}


@route("GET", "/auth", is_open=True)
async def auth(call: Call) -> Any:
    """How the pages are to log in."""
    return {"oauth_enabled": False, "enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


@route("POST", "/login", is_open=True)
async def login(call: Call) -> Any:
    """Whether a name and a password, sent as a form, are right."""
    form = await call.form()
    name, password = form.get("username"), form.get("password")
    if not isinstance(name, str) or not isinstance(password, str):
        raise refused("Login failed")
    await log_in(call.node, call.request, name, password)
    return "ok"


@route("GET", "/auth/hash_password/{password}")
async def hash_a_password(call: Call) -> Any:
    """A hash that definitions take."""
    call.require_administrator()
    return {"ok": hash_to_text(hash_password(call.path("password")))}


@route("GET", "/auth/attempts/{node}")
async def attempts(call: Call) -> Any:
    """Logins that were tried."""
    call.require_monitor()
    require_this_node(call)
    limiter = call.broker.services.access.limiter
    return [_attempts("amqp091", limiter.succeeded, limiter.failed)]


def _attempts(protocol: str, succeeded: int, failed: int) -> dict[str, Any]:
    return {
        "protocol": protocol, "auth_attempts": succeeded + failed,
        "auth_attempts_failed": failed, "auth_attempts_succeeded": succeeded,
    }  # fmt: skip


@route("GET", "/auth/attempts/{node}/source")
async def attempts_by_source(call: Call) -> Any:
    """Logins that were tried, by address."""
    call.require_monitor()
    require_this_node(call)
    limiter = call.broker.services.access.limiter
    return [
        {"remote_address": address, "username": "",
         **_attempts("amqp091", one.succeeded, one.failed)}
        for address, one in limiter.by_address().items()
    ]  # fmt: skip


@route("DELETE", "/auth/attempts/{node}", "/auth/attempts/{node}/source")
async def reset_attempts(call: Call) -> Any:
    """Count from nothing."""
    call.require_monitor()
    require_this_node(call)
    call.broker.services.access.limiter.reset()
    return NoContent()
