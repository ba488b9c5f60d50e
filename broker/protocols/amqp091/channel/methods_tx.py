"""The tx class: transactions of publishes and settlements on one channel (committing.py)."""

from pamqp import commands

from leveret.broker.amqp.errors import precondition_failed
from leveret.broker.protocols.amqp091.channel.channel import Channel
from leveret.broker.sessions import committing


async def select(channel: Channel, method: commands.Tx.Select) -> None:
    """Make the channel transactional."""
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.begin_transaction()
    channel.send(commands.Tx.SelectOk)


async def commit(channel: Channel, method: commands.Tx.Commit) -> None:
    """Publish, then settle; tx.commit-ok is sent once everything persistent is on disk."""
    committing.transaction_of(channel)
    if channel.unsynced is not None:
        # A failed commit closes the channel, which comes after earlier replies.
        await channel.unsynced.all_sent
    await committing.commit(channel)


async def rollback(channel: Channel, method: commands.Tx.Rollback) -> None:
    """Discard the publishes; the settled deliveries become unsettled."""
    await committing.roll_back(channel)
    channel.send(commands.Tx.RollbackOk)
