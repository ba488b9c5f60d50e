"""The tx class: transactions of publishes and settlements on one channel."""

from pamqp import commands

from leveret.broker.amqp.errors import ChannelFault, precondition_failed
from leveret.broker.channel.channel import Channel
from leveret.broker.channel.methods_basic import affordable, apply_settling
from leveret.broker.channel.publishing import reached_all
from leveret.broker.channel.transaction import Transaction
from leveret.broker.channel.unacked import SETTLE_WORK
from leveret.broker.runtime.long_work import LongWork
from leveret.broker.vhost.fan_out import CARE_WORK

APPLY_WORK = 16
"""The work of applying one settlement, besides that of its deliveries (broker/runtime/turns.py)."""


async def select(channel: Channel, method: commands.Tx.Select) -> None:
    """Make the channel transactional."""
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction(channel.send_commits)
    channel.send(commands.Tx.SelectOk)


async def commit(channel: Channel, method: commands.Tx.Commit) -> None:
    """Publish, then settle; send tx.commit-ok once everything persistent is on disk."""
    transaction = _transaction_of(channel)
    turns = channel.vhost.turns
    if channel.unsynced is not None:
        # A failed commit closes the channel, which comes after earlier replies.
        await channel.unsynced.all_sent
    while transaction.publishes:
        rest = transaction.publishes.popleft()()
        if rest is not None:
            await reached_all(channel, rest)
        turns.work_left -= CARE_WORK
        await turns.give_way()
    while (settling := transaction.next_settling(affordable(channel))) is not None:
        action, taken = settling
        turns.work_left -= APPLY_WORK + SETTLE_WORK * len(taken)
        apply_settling(channel, action, taken)
        await turns.give_way()
    channel.transaction = Transaction(channel.send_commits)
    channel.committing.append(transaction)
    channel.send_commits()


async def rollback(channel: Channel, method: commands.Tx.Rollback) -> None:
    """Discard the publishes; the settled deliveries become unsettled, without a requeue."""
    transaction = _transaction_of(channel)
    turns = channel.vhost.turns
    for work in channel.unacked.putting_back(transaction.taken(), channel.next_delivery_tag):
        turns.work_left -= work
        await turns.give_way()
    channel.transaction = Transaction(channel.send_commits)
    LongWork(turns, f"the rollback of {channel!r}", transaction.dropping()).start()
    channel.send(commands.Tx.RollbackOk)


def _transaction_of(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise not_transactional()
    return channel.transaction


def not_transactional() -> ChannelFault:
    """The 406 for a commit or rollback without tx.select."""
    return precondition_failed("channel is not transactional")
