"""Assigns queues and routing keys to clients, and declares exchange, queues and bindings.

There are two ways, as in PerfTest. With a pattern or a file of names, clients are assigned to
queues in turn: the first producer and the first consumer use the first queue, and so on, and a
queue's name is its routing key. Otherwise all consumers use all named queues, which are bound with
the one routing key of all producers; without names, each consumer has a queue of its own, and each
message goes to all of them.

Named queues are declared before any client starts (`declare`); server-named and exclusive ones by
their consumer (`declare_queue`).
"""

import asyncio

from pamqp import base, commands

from leveret.broker.amqp.json_tables import json_to_table
from leveret.broker.moving.client.channel import ClientChannel
from leveret.mgmt.perf.connection import NotReachable, PerfChannelClosed, PerfConnection, connect
from leveret.mgmt.perf.options import PerfOptions

NOT_FOUND = 404
RETRY_SECONDS = 0.5


def queues_of_consumer(options: PerfOptions, number: int) -> list[str]:
    """Return the queues of a consumer, counted from 0; the broker chooses an empty name."""
    names = options.queue_names()
    if options.takes_turns:
        return [names[number % len(names)]]
    return names or [""]


def key_of_producer(options: PerfOptions, number: int) -> str:
    """Return the routing key of a producer, counted from 0."""
    if options.routing_key is not None:
        return options.routing_key
    names = options.queue_names()
    return names[number % len(names)] if names else ""


async def declare(options: PerfOptions) -> None:
    """Declare the named exchange and queues, or check that they exist. Raises PerfError."""
    connection = await _connect_patiently(options)
    try:
        channel = await connection.open_channel()
        await _declare_exchange(connection, channel, options)
        if not options.exclusive:
            for name in options.queue_names():
                await declare_queue(connection, channel, name, options)
    finally:
        await connection.close()


async def declare_queue(
    connection: PerfConnection, channel: ClientChannel, name: str, options: PerfOptions
) -> str:
    """Declare and bind a queue, or check that it exists; returns its name. Raises PerfError."""
    declared = await connection.call(
        channel, commands.Queue.Declare, queue=name, passive=options.predeclared,
        durable=options.is_persistent, exclusive=options.exclusive,
        auto_delete=options.auto_delete, arguments=json_to_table(options.queue_args),
    )  # fmt: skip
    assert isinstance(declared, commands.Queue.DeclareOk)
    if options.exchange and not options.skip_binding_queues:
        key = name if options.routing_key is None else options.routing_key
        await connection.call(
            channel, commands.Queue.Bind, queue=declared.queue, exchange=options.exchange,
            routing_key=key, arguments={},
        )  # fmt: skip
    return declared.queue or name


async def delete_polled(options: PerfOptions) -> None:
    """Delete auto-delete queues that never had a consumer. Raises PerfError."""
    if options.predeclared or options.exclusive or not options.auto_delete:
        return
    connection = await connect(options.uris[0], options, f"{options.id}-deletion")
    try:
        channel = await connection.open_channel()
        for name in options.queue_names():
            await connection.call(channel, commands.Queue.Delete, queue=name)
    finally:
        await connection.close()


async def _declare_exchange(
    connection: PerfConnection, channel: ClientChannel, options: PerfOptions
) -> None:
    if not options.exchange or options.exchange.startswith("amq."):
        return
    probe = {"exchange": options.exchange, "passive": True}
    if options.predeclared_exchange:
        await connection.call(channel, commands.Exchange.Declare, **probe)
        return
    if options.predeclared and await _exists(connection, commands.Exchange.Declare, probe):
        return
    await connection.call(
        channel, commands.Exchange.Declare, exchange=options.exchange,
        exchange_type=options.type, durable=True,
    )  # fmt: skip


async def _exists(
    connection: PerfConnection, method: type[base.Frame], probe: dict[str, object]
) -> bool:
    """Tell whether something exists, using a separate channel, which a negative answer closes."""
    channel = await connection.open_channel()
    try:
        await connection.call(channel, method, **probe)
    except PerfChannelClosed as error:
        if error.reply_code != NOT_FOUND:
            raise
        return False
    await channel.close()
    return True


async def _connect_patiently(options: PerfOptions) -> PerfConnection:
    """Open the first connection, waiting for a broker that is starting."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + options.servers_startup_timeout
    while True:
        try:
            return await connect(options.uris[0], options, f"{options.id}-configuration")
        except NotReachable:
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(RETRY_SECONDS)
