"""Attempts to connect to servers and move messages, repeated until one succeeds.

After each failure the reason is reported, and the next attempt begins after a pause. So the node
reconnects to a server that has come back. A reason is logged when it is new, and then only from
time to time: a hundred shovels whose server is down would otherwise fill the log.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

from leveret.broker.amqp.uri import UriError, parse_uri, without_credentials
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ChannelClosed, ConnectionClosed, ConnectionFailed
from leveret.broker.runtime.clock import Clock

REPEATED_MS: Final = 600_000
"""How often an unchanged reason is logged."""

Connect = Callable[[str, str], Awaitable[ClientConnection]]
"""Connects to the server of a URI, under a name. Raises ConnectionFailed."""


class TransferFailed(Exception):
    """An attempt has failed; the text says why."""


class Attempts:
    """The attempts of one shovel or link.

    what: the attempt's name in the log. delay_s: the pause after a failure; 0 for no other attempt.
    """

    def __init__(self, what: str, logger: logging.Logger, delay_s: float, clock: Clock) -> None:
        self._what = what
        self._logger = logger
        self._delay_s = delay_s
        self._clock = clock
        self._reason = ""
        self._logged_ms = 0
        self._unlogged = 0

    async def run(
        self, attempt: Callable[[], Awaitable[bool]], failed: Callable[[str], object]
    ) -> bool:
        """Attempt until an attempt returns True; one that returns False is followed by the next.

        failed: called with the reason of each failure. Returns False if an attempt has failed and
        is not repeated.
        """
        while True:
            try:
                if await attempt():
                    return True
                continue
            except (ConnectionFailed, ConnectionClosed, ChannelClosed, TransferFailed) as error:
                reason = str(error)
            except Exception as error:
                self._logger.exception("%s has failed because of an error of this node", self._what)
                reason = f"an error of this node: {error!r}"
            self._log(reason)
            failed(reason)
            if not self._delay_s:
                return False
            await asyncio.sleep(self._delay_s)

    def succeeded(self) -> None:
        """Messages move: the next failure is a new one, whatever its reason."""
        self._reason = ""

    def _log(self, reason: str) -> None:
        delay_s, now_ms = self._delay_s, self._clock.now_ms()
        if reason != self._reason:
            again = f"starts again in {delay_s:g} s" if delay_s else "is not started again"
            self._logger.warning("%s has stopped, and %s: %s", self._what, again, reason)
        elif now_ms - self._logged_ms >= REPEATED_MS:
            self._logger.warning(
                "%s has stopped %d more times for the same reason: %s",
                self._what, self._unlogged + 1, reason,
            )  # fmt: skip
        else:
            self._unlogged += 1
            return
        self._reason, self._logged_ms, self._unlogged = reason, now_ms, 0


@contextmanager
def preparing(end: str) -> Iterator[None]:
    """Send requests to this end in the block. Raises TransferFailed with its refusal."""
    try:
        yield
    except ChannelClosed as error:
        raise TransferFailed(f"the {end} refuses: {error.closed}") from None
    except ConnectionClosed as error:
        raise TransferFailed(f"the {end} was lost: {error.closed}") from None


async def connect_to_all(
    connect: Connect,
    ends: Mapping[str, Sequence[str]],
    name: str,
    opened: list[ClientConnection],
) -> dict[str, tuple[str, ClientConnection]]:
    """Connect to both ends of a transfer. Returns each end's URI and connection.

    ends: URIs by the names of the ends. name: the connections' name, for the servers' operators.
    opened: the connections are added to them. An end that is this node itself comes last:
    otherwise, while the other end cannot be reached, each attempt would log a connection here that
    is closed at once. Raises TransferFailed.
    """
    order = sorted(ends, key=lambda what: all(map(_is_this_node, ends[what])))
    return {what: await connect_to_any(connect, what, ends[what], name, opened) for what in order}


def _is_this_node(uri: str) -> bool:
    try:
        return parse_uri(uri).host is None
    except UriError:
        return False


async def connect_to_any(
    connect: Connect, what: str, uris: Sequence[str], name: str, opened: list[ClientConnection]
) -> tuple[str, ClientConnection]:
    """Connect to one of these, in any order: its URI, and the connection.

    what: the end, for the reason. The rest is as in `connect_to_all`.
    """
    problems = {}
    for uri in random.sample(uris, len(uris)):
        try:
            connection = await connect(uri, name)
        except ConnectionFailed as error:
            problems[uri] = f"{without_credentials(uri)}: {error}"
        else:
            opened.append(connection)
            return uri, connection
    # In the order of the URIs, so that a reason stays the same while the problems do.
    told = "; ".join(problems[uri] for uri in dict.fromkeys(uris))
    raise TransferFailed(f"failed to connect to {what}: {told}")


async def close_all(opened: Sequence[ClientConnection]) -> None:
    """Close connections together, so that all of them end even if this is cancelled."""
    await asyncio.gather(*(connection.close() for connection in opened))
