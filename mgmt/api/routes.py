"""The table of routes, with the function for each. Resources add theirs to `ROUTES`.

An answer is a JSON value, an instance of one of the classes here, or a response of aiohttp.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import msgspec
from aiohttp import web

from leveret.mgmt.api.call import Call

Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Created:
    """201, or 204 if the object existed. location: the object's path, relative to the request."""

    is_new: bool = True
    location: str = ""


@dataclass(frozen=True, slots=True)
class StatusAnswer:
    """A status other than 200, with content."""

    status: int
    content: Any


@dataclass(frozen=True, slots=True)
class JsonWithEtag:
    """200 with JSON and its ETag, or 304 for a client that already has it. parts: encoded JSON."""

    parts: list[bytes]
    etag: str


@dataclass(frozen=True, slots=True)
class Lines:
    """200 with the objects of a list; each is made when the client has read the previous ones.

    rows: the objects as JSON.
    """

    rows: AsyncIterator[msgspec.Raw]


def has_etag(request: web.Request, etag: str) -> bool:
    """Whether the client has the content of an ETag."""
    return any(one.value == etag for one in request.if_none_match or ())


class NoContent:
    """204."""


class Answerer(Enum):
    """The node of a cluster that answers: the one that gets the request, or the one it concerns.

    WHO_HAS_IT: the node that gets the request or, if it answers with 404, any other.
    """

    WHO_IS_ASKED = "asked"
    WHO_HAS_IT = "has"
    NODE_IN_PATH = "path"
    HOME_OF_QUEUE = "home"


@dataclass(frozen=True, slots=True)
class ApiRoute:
    """A method at a path, and the function that answers it.

    control_only: only the control socket has it. works_stopped: it needs no running broker.
    is_open: it needs no login. answers_at_once: even on a node that was suspended and does not know
    yet whether the other nodes have continued without it; other routes wait until it does.
    is_linked: browsers follow links to it, with the login in the query. answered_by: the node of a
    cluster on which the function runs. plugin: the plugin of a package that has the route, which is
    not there while it does not run.
    """

    method: str
    path: str
    handler: Handler
    control_only: bool = False
    works_stopped: bool = False
    is_open: bool = False
    answers_at_once: bool = False
    is_linked: bool = False
    answered_by: Answerer = Answerer.WHO_IS_ASKED
    plugin: str = ""


ROUTES: list[ApiRoute] = []


def route(method: str, *paths: str, **traits: Any) -> Callable[[Handler], Handler]:
    """Register a function for requests. paths: below /api. traits: fields of `ApiRoute`."""

    def register(handler: Handler) -> Handler:
        for path in paths:
            ROUTES.append(ApiRoute(method, path, handler, **traits))
        return handler

    return register
