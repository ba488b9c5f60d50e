"""How a transfer stops: it loses a connection or channel, or is told to stop."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeVar

from leveret.broker.moving.client.channel import ClientChannel
from leveret.broker.moving.client.connection import ClientConnection
from leveret.broker.moving.client.ended import ChannelClosed, ConnectionClosed
from leveret.broker.moving.transfers.transfer import MessageTransfer

SETTLE_SECONDS_MAX: Final = 10.0
SETTLE_POLL_SECONDS: Final = 0.01

Value = TypeVar("Value")
End = Sequence[ClientConnection | ClientChannel]
"""A connection and its channels."""


async def first_end(
    over: Sequence[asyncio.Future[None]], broken: asyncio.Future[str], ends: Mapping[str, End]
) -> str:
    """Wait for the end or a loss. Returns the reason of the loss; empty for the end.

    over: one of these is done then. broken: the reason why messages cannot move, though both ends
    are open. ends: by their names.
    """
    closed = [(one.closed, name) for name, end in ends.items() for one in end]
    waits: list[asyncio.Future[Any]] = [*over, broken, *(future for future, _ in closed)]
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if any(one.done() for one in over):
        return ""
    for future, name in closed:
        if future.done():
            return f"the {name} was lost: {future.result()}"
    return broken.result()


async def settle(
    consuming: ClientChannel, tag: str, publishing: ClientChannel, transfer: MessageTransfer
) -> None:
    """Stop the deliveries, and wait until published messages are confirmed.

    So a stop causes no duplicates. The wait for a destination that does not confirm is short, and
    there is none if an end is lost.
    """
    try:
        async with asyncio.timeout(SETTLE_SECONDS_MAX):
            if not publishing.closed.done():
                transfer.hear_source()
                await consuming.cancel(tag)
            while not (transfer.is_settled or consuming.closed.done() or publishing.closed.done()):
                await asyncio.sleep(SETTLE_POLL_SECONDS)
    except (TimeoutError, ChannelClosed, ConnectionClosed):
        # Remaining messages go back to their queue when the connection is closed.
        return


def give(event: asyncio.Future[Value], value: Value) -> None:
    """Set an event, unless it is set."""
    if not event.done():
        event.set_result(value)
