"""The user of a request, from its header, or from its query where a browser follows a link.

There are no sessions, and cookies are ignored, so that a page of another site cannot use a
browser's login.
"""

import base64

from aiohttp import web

from leveret.broker.auth.identity import HTTP, Identity, LoginAttempt
from leveret.mgmt.api.errors import ApiError, not_authorised
from leveret.mgmt.running_node import RunningNode

REALM = 'Basic realm="RabbitMQ Management"'
ANONYMOUS = Identity("")
"""The user of requests that need no login."""


def refused(reason: str) -> ApiError:
    """401 with the header that makes a browser ask its user for a login."""
    return ApiError(401, "not_authorized", reason, {"WWW-Authenticate": REALM})


def credentials_of(request: web.Request, *, from_query: bool) -> tuple[str, str]:
    """The name and the password; of a bearer token, an empty name and the token. Raises 401.

    from_query: `?auth=BASE64` is accepted, too.
    """
    kind, _, value = request.headers.get("Authorization", "").partition(" ")
    if from_query and request.query.get("auth"):
        kind, value = "basic", request.query["auth"]
    if kind.lower() == "bearer" and value:
        return "", value.strip()
    if kind.lower() == "basic":
        try:
            name, colon, password = base64.b64decode(value, validate=True).decode().partition(":")
        except ValueError:
            colon = ""
        if colon:
            return name, password
    raise refused("Not_Authorized")


async def log_in(node: RunningNode, request: web.Request, name: str, password: str) -> Identity:
    """The user of that name. Raises 401, also if the user may not use management."""
    facade = node.facade
    if facade is None:
        raise ApiError(503, "service_unavailable", "the broker is stopped on this node")
    host = request.remote or ""
    attempt = LoginAttempt(name, password, host, f"HTTP from {host}", HTTP)
    identity = await facade.access.log_in(attempt)
    if identity is None:
        raise refused("Login failed")
    if not identity.may_use_management:
        raise not_authorised("Not management user")
    return identity
