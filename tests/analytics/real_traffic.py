"""Real clients at a real node that writes a log, and their account of the expected records.

Each function is a scenario with queues of its own; its docstring says what happens to the messages.
Everything happens within one minute, so that each table has one row per object. A busy machine may
need longer: then the clients begin again at the start of a minute, at another node.
"""

import asyncio
import time
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from aio_pika import ExchangeType

from tests.analytics.account import Account, Client, now_us
from tests.mgmt.served_node import ServedNode

VHOST, QUIET = "shop/eu", "quiet"
USERS = ("shop", "worker", "idler")
NEEDS_SECONDS = 20
"""Seconds of a minute that must be left when the clients start for the first time."""
ATTEMPTS = 5
ORDER_SIZES = {"one": 100, "two": 1024, "three": 1025}
SLOW_SECONDS, LATE_SECONDS, TTL_SECONDS = 0.03, 0.15, 0.08
HOT, WARM = 600, 20


ACKNOWLEDGED = {
    "orders.a": 10, "orders.b": 5, "orders.c": 2, "crash": 2, "unsafe": 2, "recovered": 1,
    "purged": 1, "fetched": 2, "events": HOT + WARM + 1, "paced": 3, "shared": 2,
}  # fmt: skip
"""How many messages of each queue are acknowledged, or need no acknowledgement."""
FATES = {
    **{(f"stuck-{number}", "stuck"): ("never_acknowledged", None, 1) for number in range(3)},
    ("refused", "refused"): ("rejected", None, 2),
    **{(f"brief-{number}", "brief"): ("expired", None, 0) for number in range(2)},
    ("chain-3", "work"): ("dead_lettered", "rejected", 1),
    ("chain-3", "wait"): ("dead_lettered", "expired", 0),
    ("chain-3", "work.again"): ("dead_lettered", "rejected", 1),
    ("chain-3", "audit"): ("never_delivered", None, 0),
    ("chain-3", "graves"): ("never_delivered", None, 0),
    ("chain-2", "wait"): ("dead_lettered", "expired", 0),
    ("chain-2", "work.again"): ("dead_lettered", "rejected", 1),
    ("chain-2", "audit"): ("never_delivered", None, 0),
    ("chain-2", "graves"): ("never_delivered", None, 0),
    ("chain-lost", "odd"): ("dead_lettered", "rejected", 1),
    **{(f"short-{number}", "short"): ("dropped", "maxlen", 0) for number in range(3)},
    **{(f"short-{number}", "short"): ("never_delivered", None, 0) for number in (3, 4)},
    ("spilt", "short.dlx"): ("dead_lettered", "maxlen", 0),
    ("spilt", "overflow"): ("never_delivered", None, 0),
    ("kept", "short.dlx"): ("never_delivered", None, 0),
    ("full-0", "full"): ("never_delivered", None, 0),
    ("full-1", "full"): ("dropped", "maxlen", 0),
    **{(f"purged-{number}", "purged"): ("dropped", "purge", 0) for number in (1, 2, 3)},
    ("purged-last", "purged"): ("dropped", "queue_deleted", 0),
    **{(f"doomed-{number}", "doomed"): ("dropped", "queue_deleted", 1) for number in (0, 1)},
    **{(f"doomed-{number}", "doomed"): ("dropped", "queue_deleted", 0) for number in (2, 3)},
    ("fleeting-0", "fleeting"): ("dropped", "queue_deleted", 1),
    ("fleeting-1", "fleeting"): ("dropped", "queue_deleted", 0),
    **{(f"idle-{number}", "idle"): ("never_delivered", None, 0) for number in range(3)},
    ("copied", "letters.to"): ("never_delivered", None, 0),
    ("copied", "letters.cc"): ("never_delivered", None, 0),
}
"""All other messages but the twins: (message-id, queue) to fate, reason and deliveries."""


class Run(NamedTuple):
    """The result. trace: directory of the log. names: of connections, by client.

    took_too_long: the clients needed more than was left of the minute.
    """

    trace: Path
    account: Account
    minute_us: int
    names: dict[str, str]
    took_too_long: bool


async def declare(client):
    """Declare the exchanges and queues of all scenarios."""
    channel = client.channel
    for exchange, kind in (
        ("orders", ExchangeType.DIRECT), ("events", ExchangeType.TOPIC),
        ("letters", ExchangeType.DIRECT), ("retry", ExchangeType.FANOUT),
        ("again", ExchangeType.FANOUT), ("dead", ExchangeType.FANOUT),
        ("void", ExchangeType.FANOUT),
    ):  # fmt: skip
        await channel.declare_exchange(exchange, kind)
    arguments = {
        "wait": {"x-message-ttl": int(TTL_SECONDS * 1000), "x-dead-letter-exchange": "again"},
        "work": {"x-dead-letter-exchange": "retry"},
        "work.again": {"x-dead-letter-exchange": "dead"},
        "odd": {"x-dead-letter-exchange": "void"},
        "short": {"x-max-length": 2},
        "short.dlx": {
            "x-max-length": 1, "x-dead-letter-exchange": "",
            "x-dead-letter-routing-key": "overflow",
        },
        "full": {"x-max-length": 1, "x-overflow": "reject-publish"},
    }  # fmt: skip
    plain = (
        "orders.a", "orders.b", "orders.c", "old", "shared", "stuck", "refused", "crash",
        "unsafe", "recovered", "brief", "graves", "audit", "overflow", "purged", "doomed",
        "twins", "fetched", "idle", "events", "letters.to", "letters.cc", "paced",
    )  # fmt: skip
    for name in (*plain, *arguments):
        await channel.declare_queue(name, arguments=arguments.get(name))
    for exchange, key, queues in (
        ("orders", "one", ["orders.a"]), ("orders", "two", ["orders.a", "orders.b"]),
        ("orders", "three", ["orders.a", "orders.b", "orders.c"]), ("events", "#", ["events"]),
        ("letters", "to", ["letters.to"]), ("letters", "copy", ["letters.cc"]),
        ("retry", "", ["wait"]), ("again", "", ["work.again"]), ("dead", "", ["audit", "graves"]),
    ):  # fmt: skip
        for queue in queues:
            await (await channel.get_queue(queue, ensure=False)).bind(exchange, key)


async def orders(shop, worker):
    """Ten messages to one, two or three queues; a slow, a fast and a no-ack consumer."""
    a, b, c = "orders.a", "orders.b", "orders.c"
    for key, count, queues in (("one", 5, [a]), ("two", 3, [a, b]), ("three", 2, [a, b, c])):
        for number in range(count):
            message_id = f"order-{key}-{number}"
            await shop.publish(message_id, key, queues, "orders", ORDER_SIZES[key])
    await asyncio.sleep(LATE_SECONDS)
    quick = await worker.consume(b, "quick")
    *multiple, last = [await quick.next() for _ in range(5)]
    await quick.ack(last, multiple)
    careless = await worker.consume(c, "careless", no_ack=True)
    for _ in range(2):
        await careless.next()
    slow = await worker.consume(a, "slow", prefetch=1)
    for _ in range(10):
        message = await slow.next()
        await asyncio.sleep(SLOW_SECONDS)
        await slow.ack(message)


async def shared(shop, worker, idler):
    """Two consumers get a message each; one of them takes longer."""
    swift = await worker.consume("shared", "swift", prefetch=1)
    sluggish = await idler.consume("shared", "sluggish", prefetch=1)
    began = now_us()
    for number in range(2):
        await shop.publish(f"shared-{number}", "shared", ["shared"])
    held_us = await swift.ack(await swift.next()) - began
    message = await sluggish.next()
    await asyncio.sleep(held_us / 1e6)
    await sluggish.ack(message)


async def stuck(shop, idler):
    """Three messages, none of which is acknowledged."""
    for number in range(3):
        await shop.publish(f"stuck-{number}", "stuck", ["stuck"], correlation_id="why")
    consumer = await idler.consume("stuck", "stuck")
    for _ in range(3):
        await consumer.next()


async def refused(shop, worker):
    """A message is rejected, delivered again, and rejected without requeue."""
    await shop.publish("refused", "refused", ["refused"])
    await worker.reject("refused", await worker.get("refused"), requeue=True)
    await worker.reject("refused", await worker.get("refused"), requeue=False)


async def crash(shop, worker):
    """One message is delivered seven times, the other one five times."""
    await shop.publish("crash-7", "crash", ["crash"])
    await shop.publish("crash-5", "crash", ["crash"])
    consumer = await worker.consume("crash", "crashing", prefetch=1)
    for times in (7, 5):
        for _ in range(times - 1):
            await consumer.reject(await consumer.next(), requeue=True)
        await consumer.ack(await consumer.next())


async def unsafe(shop, worker):
    """Two messages are requeued because their channel ends, and one because its client recovers."""
    for number in range(2):
        await shop.publish(f"unsafe-{number}", "unsafe", ["unsafe"])
    consumer = await worker.consume("unsafe", "unsafe")
    await consumer.close(unacked=[await consumer.next(), await consumer.next()])
    for _ in range(2):
        await worker.ack("unsafe", await worker.get("unsafe"))
    await shop.publish("recovered", "recovered", ["recovered"])
    await worker.recover("recovered", [await worker.get("recovered")])
    await worker.ack("recovered", await worker.get("recovered"))


async def brief(shop):
    """Two messages expire without dead-lettering."""
    began = now_us()
    for number in range(2):
        await shop.publish(f"brief-{number}", "brief", ["brief"], expiration=TTL_SECONDS)
    await shop.wait_for_depth("brief", 0)
    for number in range(2):
        shop.account.add("expire", began, f"brief-{number}", "brief")


async def dead_letters(shop, worker):
    """Messages are dead-lettered three times, twice, and to no queue."""
    await shop.publish("chain-3", "work", ["work"], correlation_id="c-3")
    await die(worker, "chain-3", "work", "retry", "work", ["wait"])
    await expire_again(worker, "chain-3", "work")
    await shop.publish("chain-2", "wait", ["wait"])
    await expire_again(worker, "chain-2", "wait")
    await shop.publish("chain-lost", "odd", ["odd"])
    await die(worker, "chain-lost", "odd", "void", "odd", [])


async def die(worker, message_id, queue, exchange, key, queues):
    """Get a message and reject it."""
    message = await worker.get(queue)
    assert message.message_id == message_id
    began = now_us()
    await worker.reject(queue, message, requeue=False)
    note_death(worker, began, message_id, queue, "rejected", exchange, key, queues)


async def expire_again(worker, message_id, key):
    """The message expires in `wait` and is rejected in `work.again`; two queues get it."""
    began = now_us()
    await worker.wait_for_depth("work.again", 1)
    worker.account.add("expire", began, message_id, "wait")
    note_death(worker, began, message_id, "wait", "expired", "again", key, ["work.again"])
    await die(worker, message_id, "work.again", "dead", key, ["audit", "graves"])


def note_death(client, began, message_id, queue, reason, exchange, key, queues):
    client.account.add(
        "dead_letter", began, message_id, queue, reason=reason, exchange=exchange, key=key,
        queues=queues,
    )  # fmt: skip


async def short(shop):
    """Queues with a maximum length drop three messages, dead-letter one, and refuse one."""
    for number in range(5):
        began = now_us()
        assert await shop.publish(f"short-{number}", "short", ["short"])
        if number >= 2:
            shop.account.add("drop", began, f"short-{number - 2}", "short", reason="maxlen")
    await shop.publish("spilt", "short.dlx", ["short.dlx"])
    began = now_us()
    await shop.publish("kept", "short.dlx", ["short.dlx"])
    shop.account.add("drop", began, "spilt", "short.dlx", reason="maxlen")
    note_death(shop, began, "spilt", "short.dlx", "maxlen", "", "overflow", ["overflow"])
    assert await shop.publish("full-0", "full", ["full"])
    began = now_us()
    assert not await shop.publish("full-1", "full", ["full"])
    shop.account.add("drop", began, "full-1", "full", reason="maxlen")


async def unroutable(shop):
    """One unroutable message is returned, two are lost."""
    began = now_us()
    assert not await shop.publish("back", "nowhere", [], "orders", mandatory=True)
    shop.account.add("return", began, "back", key="nowhere", exchange="orders", **shop.who)
    for number in range(2):
        assert await shop.publish(f"lost-{number}", "void", [], "orders")


async def purged(shop, worker):
    """Three of four messages are purged. The last one is acknowledged, and the queue deleted."""
    for number in range(4):
        await shop.publish(f"purged-{number}", "purged", ["purged"])
    kept = await worker.get("purged")
    began = now_us()
    await (await shop.channel.get_queue("purged", ensure=False)).purge()
    shop.account.add("drop", began, None, "purged", count=3, reason="purge")
    await worker.ack("purged", kept)
    await shop.publish("purged-last", "purged", ["purged"])
    await delete(shop, "purged", 1)


async def delete(client, queue, count):
    """Delete a queue. count: number of its ready messages."""
    began = now_us()
    await client.channel.queue_delete(queue, if_unused=False, if_empty=False)
    client.account.add("drop", began, None, queue, count=count, reason="queue_deleted")


async def doomed(shop, worker):
    """A queue is deleted with four messages: two ready, one later requeued, and one held."""
    for number in range(4):
        await shop.publish(f"doomed-{number}", "doomed", ["doomed"])
    await worker.get("doomed")
    given_back = await worker.get("doomed")
    await delete(shop, "doomed", 2)
    began = now_us()
    await worker.reject("doomed", given_back, requeue=True)
    shop.account.add("drop", began, "doomed-1", "doomed", reason="queue_deleted")


async def fleeting(node, shop):
    """An exclusive queue is deleted with its connection, which holds one of its two messages."""
    guest = await Client.connect(shop.account, node, VHOST, "worker", "fleeting")
    await guest.channel.declare_queue("fleeting", exclusive=True)
    for number in range(2):
        await shop.publish(f"fleeting-{number}", "fleeting", ["fleeting"])
    await guest.get("fleeting")
    began = now_us()
    await guest.close()
    shop.account.add("requeue", began, "fleeting-0", "fleeting")
    shop.account.add("drop", began, None, "fleeting", count=2, reason="queue_deleted")
    return guest


async def fetched(shop, worker):
    """basic.get with and without acknowledgement."""
    for number in range(2):
        await shop.publish(f"fetched-{number}", "fetched", ["fetched"], size=5000)
    await worker.ack("fetched", await worker.get("fetched"))
    await worker.get("fetched", no_ack=True)


async def left(shop):
    """Some messages stay in the queue; one message-id is used three times."""
    for number in range(3):
        await shop.publish(f"idle-{number}", "idle", ["idle"], size=0)
    for _ in range(2):
        await shop.publish("twin", "twins", ["twins"])
    await shop.publish("twin", "void", [], "orders")
    await shop.publish("copied", "to", ["letters.to", "letters.cc"], "letters",
                       headers={"CC": ["copy"]})  # fmt: skip


async def events(shop, worker):
    """Routing keys with very different shares."""
    consumer = await worker.consume("events", "watch", no_ack=True, prefetch=0)
    keys = ["hot"] * HOT + ["warm"] * WARM + ["cold"]
    kinds = [(f"event-{number}", key) for number, key in enumerate(keys)]
    await shop.publish_many(kinds, ["events"], "events")
    for _ in keys:
        await consumer.next()


async def paced(shop, worker):
    """Three messages are ready at the end of a second, and unacknowledged at the end of another."""
    for number in range(3):
        await shop.publish(f"paced-{number}", "paced", ["paced"])
    await next_second()
    consumer = await worker.consume("paced", "paced")
    messages = [await consumer.next() for _ in range(3)]
    await next_second()
    for message in messages:
        await consumer.ack(message)


async def next_second():
    await asyncio.sleep(1.001 - time.time() % 1)


async def room_in_the_minute(needs_s):
    """Wait for the next minute if less than this is left of the current one, in seconds."""
    left_s = 60 - time.time() % 60
    if left_s < needs_s:
        await asyncio.sleep(left_s + 0.001)


async def run_clients(node, trace, needs_s):
    """Run the scenarios and return what a `Run` has after its trace.

    trace: starts a log when called, and stops it. needs_s: seconds of the minute that must be left.
    """
    account = Account()
    early = await Client.connect(Account(), node, VHOST, "shop", "early")
    await declare(early)
    for number in range(2):
        await early.publish(f"old-{number}", "old", ["old"])
    await room_in_the_minute(needs_s)
    began_us = now_us()
    trace(True)
    early.account = account
    hidden = await Client.connect(Account(), node, QUIET, "shop", "hidden")
    await hidden.channel.declare_queue("hidden")
    await hidden.publish("hidden", "hidden", ["hidden"])
    shop, worker, idler = [await Client.connect(account, node, VHOST, user, user) for user in USERS]
    for _ in range(2):
        await worker.ack("old", await worker.get("old"))
    await orders(shop, worker)
    await shared(shop, worker, idler)
    await stuck(shop, idler)
    await refused(shop, worker)
    await crash(shop, worker)
    await unsafe(shop, worker)
    await brief(shop)
    await dead_letters(shop, worker)
    await short(shop)
    await unroutable(shop)
    await purged(shop, worker)
    await doomed(shop, worker)
    await fetched(shop, worker)
    await left(shop)
    await events(shop, worker)
    await paced(shop, worker)
    guest = await fleeting(node, shop)
    await hidden.get("hidden", no_ack=True)
    await early.close()
    trace(False)
    minute_us = began_us - began_us % 60_000_000
    took_too_long = now_us() >= minute_us + 60_000_000
    clients = {"early": early, "shop": shop, "worker": worker, "idler": idler, "guest": guest}
    for client in (hidden, shop, worker, idler):
        await client.connection.close()
    names = {label: client.name for label, client in clients.items()}
    return account, minute_us, names, took_too_long


def run_real_traffic(directory):
    """The `Run` of clients that needed one minute at the most."""
    for attempt in range(ATTEMPTS):
        run = run_once(directory / str(attempt), NEEDS_SECONDS if attempt == 0 else 60)
        if not run.took_too_long:
            return run
    raise AssertionError(f"the clients needed more than a minute, {ATTEMPTS} times")


def run_once(directory, needs_s=NEEDS_SECONDS):
    """Start a node in this directory, run the clients, and stop it; returns a `Run`."""
    directory.mkdir(exist_ok=True)
    node = ServedNode(directory)
    try:
        for vhost in (VHOST, QUIET):
            node.put(f"vhosts/{quote(vhost, safe='')}")
            for user in USERS:
                node.put(f"users/{user}", {"password": user, "tags": ""})
                rights = {"configure": ".*", "write": ".*", "read": ".*"}
                node.put(f"permissions/{quote(vhost, safe='')}/{user}", rights)
        path = f"traces/{quote(VHOST, safe='')}/all"

        def trace(is_on):
            log = {"format": "log", "pattern": "#", "payload": "base64"}
            answer = node.put(path, log) if is_on else node.delete(path)
            assert answer.status in (201, 204), answer

        found = asyncio.run(run_clients(node, trace, needs_s))
        place = node.data_dir / "trace"
        node.wait_until(
            lambda: any(place.rglob("*.trace.gz")) and not any(place.rglob("*.open")), "it is whole"
        )
        return Run(place, *found)
    finally:
        node.stop()
