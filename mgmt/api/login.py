"""Who makes a request: by the header, or where a browser follows a link, by the query.

Nothing is kept between requests and no cookie is set, so that a page of another site cannot use a
login that a browser has.
"""

import base64

from aiohttp import web

from broker.auth.identity import Identity, LoginAttempt
from mgmt.api.errors import ApiError, not_authorised
from mgmt.node import Node

REALM = 'Basic realm="RabbitMQ Management"'
NOBODY = Identity("")
"""Who asks where no login is needed."""


def refused(reason: str) -> ApiError:
    """401, with what a browser asks its user for."""
    return ApiError(401, "not_authorized", reason, {"WWW-Authenticate": REALM})


def credentials_of(request: web.Request, *, from_query: bool) -> tuple[str, str]:
    """Name and password; a bearer token is a password of nobody's. Raises 401.

    from_query: `?auth=BASE64` counts as well.
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


async def log_in(node: Node, request: web.Request, name: str, password: str) -> Identity:
    """The user of that name. Raises 401, also for one who may not use management."""
    broker = node.broker
    if broker is None:
        raise ApiError(503, "service_unavailable", "the broker is stopped on this node")
    host = request.remote or ""
    attempt = LoginAttempt(name, password, host, f"HTTP from {host}")
    identity = await broker.services.access.log_in(attempt)
    if identity is None:
        raise refused("Login failed")
    if not identity.may_use_management:
        raise not_authorised("Not management user")
    return identity
