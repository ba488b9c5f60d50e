"""Who uses which queue and routing key, and making exchange, queues and bindings.

As with PerfTest, there are two ways. Clients take queues in turns, one each, if there is a pattern
or a file of names: the first producer and the first consumer have the first queue, and so on, and
a queue's name is its routing key. Otherwise all consumers have all queues that are named, which are
bound with the one routing key that all producers use; without any name, each consumer has a queue
of its own, and each message goes to all of them.

Queues that have names are made before anybody begins (`declare`). Those that the broker is to name,
and exclusive ones, are made by their consumer (`declare_queue`).
"""

import asyncio

from pamqp import base, commands

from mgmt.perf.connection import ChannelClosed, Connection, NotReachable, connect
from mgmt.perf.options import Options
from mgmt.views.values import json_to_table

CHANNEL, PROBE_CHANNEL = 1, 2
NOT_FOUND = 404
RETRY_SECONDS = 0.5


def queues_of_consumer(options: Options, number: int) -> list[str]:
    """The queues of a consumer, counted from 0; an empty name is for the broker to choose."""
    names = options.queue_names()
    if options.takes_turns:
        return [names[number % len(names)]]
    return names or [""]


def key_of_producer(options: Options, number: int) -> str:
    """The routing key of a producer, counted from 0."""
    if options.routing_key is not None:
        return options.routing_key
    names = options.queue_names()
    return names[number % len(names)] if names else ""


async def declare(options: Options) -> None:
    """Make what has a name, or look whether it is there. Raises PerfError."""
    connection = await _connect_patiently(options)
    try:
        await connection.call(CHANNEL, commands.Channel.Open)
        await _declare_exchange(connection, options)
        if not options.exclusive:
            for name in options.queue_names():
                await declare_queue(connection, CHANNEL, name, options)
    finally:
        await connection.close()


async def declare_queue(connection: Connection, channel: int, name: str, options: Options) -> str:
    """Make a queue and bind it, or look whether it is there; its name. Raises PerfError."""
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


async def delete_polled(options: Options) -> None:
    """Delete what has no consumer that would have it deleted. Raises PerfError."""
    if options.predeclared or options.exclusive or not options.auto_delete:
        return
    connection = await connect(options.uris[0], options, f"{options.id}-deletion")
    try:
        await connection.call(CHANNEL, commands.Channel.Open)
        for name in options.queue_names():
            await connection.call(CHANNEL, commands.Queue.Delete, queue=name)
    finally:
        await connection.close()


async def _declare_exchange(connection: Connection, options: Options) -> None:
    if not options.exchange or options.exchange.startswith("amq."):
        return
    probe = {"exchange": options.exchange, "passive": True}
    if options.predeclared_exchange:
        await connection.call(CHANNEL, commands.Exchange.Declare, **probe)
        return
    if options.predeclared and await _exists(connection, commands.Exchange.Declare, probe):
        return
    await connection.call(
        CHANNEL, commands.Exchange.Declare, exchange=options.exchange,
        exchange_type=options.type, durable=True,
    )  # fmt: skip


async def _exists(
    connection: Connection, method: type[base.Frame], probe: dict[str, object]
) -> bool:
    """Whether something is there; asked on a channel of its own, which the answer no closes."""
    await connection.call(PROBE_CHANNEL, commands.Channel.Open)
    try:
        await connection.call(PROBE_CHANNEL, method, **probe)
    except ChannelClosed as error:
        if error.reply_code != NOT_FOUND:
            raise
        return False
    await connection.call(PROBE_CHANNEL, commands.Channel.Close, reply_code=200)
    return True


async def _connect_patiently(options: Options) -> Connection:
    """The first connection; a broker that is only starting has some time to do so."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + options.servers_startup_timeout
    while True:
        try:
            return await connect(options.uris[0], options, f"{options.id}-configuration")
        except NotReachable:
            if loop.time() >= deadline:
                raise
        await asyncio.sleep(RETRY_SECONDS)
