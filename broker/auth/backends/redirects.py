"""Requests to authentication servers, whose redirects are followed to the same origin only.

A redirect can name any address. That server would get names and passwords, and its answer would
count as that of the configured server. So a redirect to another scheme, host or port is an error,
and so is one that turns a POST into a GET without its fields.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
from aiohttp import hdrs
from yarl import URL

from leveret.broker.auth.backends.client_tls import shown_address
from leveret.broker.auth.identity import BackendUnavailable

REPEATING = (307, 308)
"""Statuses with which the request keeps its method and its body (RFC 9110, 15.4)."""
REDIRECTING = (301, 302, 303, *REPEATING)
REDIRECTS_MAX = 5


@asynccontextmanager
async def requested(
    session: aiohttp.ClientSession, method: str, url: URL, **options: Any
) -> AsyncIterator[aiohttp.ClientResponse]:
    """The answer to a request. Raises BackendUnavailable for a redirect that is not followed."""
    for _ in range(REDIRECTS_MAX + 1):
        async with session.request(method, url, allow_redirects=False, **options) as response:
            if response.status not in REDIRECTING:
                yield response
                return
            url = _target(method, url, response)
    raise BackendUnavailable(f"{_shown(url)} is the {REDIRECTS_MAX + 1}th redirect in a row")


def _target(method: str, url: URL, response: aiohttp.ClientResponse) -> URL:
    """Where a redirect leads. Raises BackendUnavailable unless it is followed."""
    location = response.headers.get(hdrs.LOCATION, "")
    redirects = f"{_shown(url)} answered with status {response.status}, a redirect"
    try:
        target = url.join(URL(location))
        is_same = bool(location) and target.origin() == url.origin()
    except ValueError:
        raise BackendUnavailable(f"{redirects} to an address that is not valid") from None
    if not is_same:
        raise BackendUnavailable(
            f"{redirects} to {_shown(target)}; it is not followed to another origin: "
            "configure the address itself"
        )
    if method == hdrs.METH_POST and response.status not in REPEATING:
        raise BackendUnavailable(f"{redirects} that has a POST repeated without its fields")
    return target


def _shown(url: URL) -> str:
    return shown_address(str(url))
