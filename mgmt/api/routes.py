"""The table of routes: which function answers which request. Resources add theirs to `ROUTES`.

An answer is a JSON value, an instance of one of the classes here, or a response of aiohttp.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from leveret.mgmt.api.call import Call

Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Created:
    """201, or 204 if the object existed. location: of the object, relative to the request."""

    is_new: bool = True
    location: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """A status other than 200, with content."""

    status: int
    content: Any


class NoContent:
    """204."""


@dataclass(frozen=True, slots=True)
class Route:
    """Which function answers a method at a path.

    control_only: only the control socket has it. works_stopped: it needs no running broker.
    is_open: it needs no login. is_linked: browsers follow links to it, with the login in the query.
    """

    method: str
    path: str
    handler: Handler
    control_only: bool = False
    works_stopped: bool = False
    is_open: bool = False
    is_linked: bool = False


ROUTES: list[Route] = []


def route(method: str, *paths: str, **traits: bool) -> Callable[[Handler], Handler]:
    """Register a function for requests. paths: below /api. traits: fields of `Route`."""

    def register(handler: Handler) -> Handler:
        for path in paths:
            ROUTES.append(Route(method, path, handler, **traits))
        return handler

    return register
