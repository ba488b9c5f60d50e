"""Authentication: the current user, logins of the pages, password hashes, login attempts."""

import base64
from typing import Any

from aiohttp import hdrs, web

from leveret.broker.amqp.json_form import text
from leveret.broker.auth.attempt_counts import Outcomes
from leveret.broker.auth.passwords import hash_password, hash_to_text
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.login import log_in, refused
from leveret.mgmt.api.overview import require_this_node
from leveret.mgmt.api.routes import Answerer, NoContent, route


@route("GET", "/whoami")
async def whoami(call: Call) -> Any:
    """The current user; with the configured length of a session, in minutes, for the pages."""
    user = {"name": text(call.identity.name), "tags": list(call.identity.tags)}
    minutes = call.node.config.management.login_session_min
    return user if minutes is None else {**user, "login_session_timeout": minutes}


@route("GET", "/auth", is_open=True)
async def auth(call: Call) -> Any:
    """How the pages log in."""
    return {"oauth_enabled": False, "enable_uaa": False, "uaa_client_id": "", "uaa_location": ""}


@route("POST", "/login", is_open=True)
async def login(call: Call) -> Any:
    """Whether a name and a password, sent as a form, are correct.

    As in RabbitMQ, the cookie `auth` has both, for programs that read it. The API takes no login
    from a cookie, so that a page of another site cannot use it.
    """
    form = await call.form_before_login()
    name, password = form.get("username"), form.get("password")
    if name is None or password is None:
        raise refused("Login failed")
    await log_in(call.node, call.http_request, name, password)
    response = web.Response(body=b'"ok"', content_type="application/json")
    encoded = base64.b64encode(f"{name}:{password}".encode("utf-8", "surrogateescape"))
    traits = "; Secure" if call.http_request.secure else ""
    cookie = f"auth={encoded.decode()}; Version=1; HttpOnly; SameSite=Strict{traits}"
    response.headers[hdrs.SET_COOKIE] = cookie
    return response


@route("GET", "/auth/hash_password/{password}")
async def hash_a_password(call: Call) -> Any:
    """The hash of a password, as definitions have it."""
    call.require_administrator()
    return {"ok": hash_to_text(hash_password(call.path("password")))}


@route("GET", "/auth/attempts/{node}", answered_by=Answerer.NODE_IN_PATH)
async def attempts(call: Call) -> Any:
    """Login attempts."""
    call.require_monitor()
    require_this_node(call)
    counts = call.facade.access.attempts.by_protocol
    return [_attempts(protocol, outcomes) for protocol, outcomes in counts.items()]


def _attempts(protocol: str, outcomes: Outcomes) -> dict[str, Any]:
    return {
        "protocol": protocol,
        "auth_attempts": outcomes.succeeded + outcomes.failed,
        "auth_attempts_failed": outcomes.failed,
        "auth_attempts_succeeded": outcomes.succeeded,
    }


@route("GET", "/auth/attempts/{node}/source", answered_by=Answerer.NODE_IN_PATH)
async def attempts_by_source(call: Call) -> Any:
    """Login attempts by the client's address."""
    call.require_monitor()
    require_this_node(call)
    return [
        {"remote_address": address, "username": "", **_attempts(protocol, outcomes)}
        for (address, protocol), outcomes in call.facade.access.attempts.by_source.items()
    ]


@route(
    "DELETE",
    "/auth/attempts/{node}",
    "/auth/attempts/{node}/source",
    answered_by=Answerer.NODE_IN_PATH,
)
async def reset_attempts(call: Call) -> Any:
    """Reset the counts of login attempts."""
    call.require_monitor()
    require_this_node(call)
    name = call.node.name
    await call.note("login.attempts.reset", "node", name, "Resetting the counts of login attempts")
    call.facade.access.attempts.reset()
    return NoContent()
