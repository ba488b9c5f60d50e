"""Attempts to connect to servers and move messages, one after the other until one is not needed.

After each failure the reason is logged and told, and the next attempt begins after a pause. So a
server that is gone is found again when it is back.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence

from leveret.broker.amqp.uri import without_credentials
from leveret.broker.client.connection import ClientConnection
from leveret.broker.client.ended import ChannelClosed, ConnectionClosed, ConnectionFailed

Connect = Callable[[str, str], Awaitable[ClientConnection]]
"""Connects to the server of a URI, under a name. Raises ConnectionFailed."""


class TransferFailed(Exception):
    """An attempt has failed; the text says why."""


async def keep_trying(
    what: object,
    logger: logging.Logger,
    delay_s: float,
    attempt: Callable[[], Awaitable[bool]],
    failed: Callable[[str], object],
) -> bool:
    """Attempt until an attempt returns True; one that returns False is followed by the next.

    what: is attempted, for the log. delay_s: the pause after a failure; 0 for no other attempt, and
    then False is returned. failed: called with the reason of each failure.
    """
    again = f"starts again in {delay_s:g} s" if delay_s else "is not started again"
    while True:
        try:
            if await attempt():
                return True
            continue
        except (ConnectionFailed, ConnectionClosed, ChannelClosed, TransferFailed) as error:
            reason = str(error)
        except Exception as error:
            logger.exception("%s has failed, by a fault of this node", what)
            reason = f"a fault of this node: {error!r}"
        logger.warning("%s has stopped, and %s: %s", what, again, reason)
        failed(reason)
        if not delay_s:
            return False
        await asyncio.sleep(delay_s)


async def connect_to_any(
    connect: Connect, what: str, uris: Sequence[str], name: str, opened: list[ClientConnection]
) -> tuple[str, ClientConnection]:
    """Connect to one of these, in any order: its URI, and the connection.

    what: they are, for the reason. name: of the connection, for the server's operators. opened: the
    connection is added to them. Raises TransferFailed.
    """
    problems = []
    for uri in random.sample(uris, len(uris)):
        try:
            connection = await connect(uri, name)
        except ConnectionFailed as error:
            problems.append(f"{without_credentials(uri)}: {error}")
        else:
            opened.append(connection)
            return uri, connection
    raise TransferFailed(f"failed to connect to {what}: {'; '.join(problems)}")


async def close_all(opened: Sequence[ClientConnection]) -> None:
    """Close connections together, so that all of them end also if this is cancelled meanwhile."""
    await asyncio.gather(*(connection.close() for connection in opened))
