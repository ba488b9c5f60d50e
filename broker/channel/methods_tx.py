"""The tx class: transactions of publishes and settlements on one channel."""

from pamqp import commands

from broker.amqp.errors import ChannelFault, precondition_failed
from broker.channel.channel import Channel
from broker.channel.methods_basic import apply_settling
from broker.channel.transaction import Transaction


def select(channel: Channel, method: commands.Tx.Select) -> None:
    """Make the channel transactional."""
    if channel.confirms is not None:
        raise precondition_failed("cannot switch from confirm to tx mode")
    if channel.transaction is None:
        channel.transaction = Transaction()
    channel.send(commands.Tx.SelectOk)


def commit(channel: Channel, method: commands.Tx.Commit) -> None:
    """Publish, then settle, then say so: when all of it is on disk that has to be."""
    transaction = _transaction_of(channel)
    for publish in transaction.publishes:
        publish()
    for action, taken in transaction.settlings:
        apply_settling(channel, action, taken)
    channel.transaction = Transaction()
    if transaction.has_failed:
        raise precondition_failed("partial tx completion")
    channel.committing.append(transaction)
    channel.send_commits()


def rollback(channel: Channel, method: commands.Tx.Rollback) -> None:
    """Forget the publishes; the settled deliveries are open again, and not requeued."""
    transaction = _transaction_of(channel)
    channel.unacked.put_back(transaction.taken())
    channel.transaction = Transaction()
    channel.send(commands.Tx.RollbackOk)


def _transaction_of(channel: Channel) -> Transaction:
    if channel.transaction is None:
        raise not_transactional()
    return channel.transaction


def not_transactional() -> ChannelFault:
    """406 for a commit or rollback without a select."""
    return precondition_failed("channel is not transactional")
