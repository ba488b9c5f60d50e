"""Which function answers which request. Each resource's file adds its own to `ROUTES`.

An answer is something JSON can say, or one of the classes here, or a response of aiohttp's.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from mgmt.api.call import Call

Handler = Callable[[Call], Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Created:
    """201, or 204 if it was there already. location: relative to the request, if any."""

    is_new: bool = True
    location: str = ""


@dataclass(frozen=True, slots=True)
class Status:
    """Another status than 200, with something to say."""

    status: int
    content: Any


class NoContent:
    """204."""


@dataclass(frozen=True, slots=True)
class Route:
    """Which function answers a method at a path.

    control_only: served on the control socket only. works_stopped: without a broker, too. is_open:
    no login is needed. is_linked: browsers follow links to it, with the login in the query.
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
    """Have a function answer requests. paths: below /api. traits: those of `Route`."""

    def register(handler: Handler) -> Handler:
        for path in paths:
            ROUTES.append(Route(method, path, handler, **traits))
        return handler

    return register
