"""A third set: written before its author had read how findings are made, and before a run of it.

Nothing was tuned on it before its first run, whose figures are in docs/operate/report.md.
"""

import math

from tests.analytics.incidents.connections import every
from tests.analytics.incidents.incident import (
    BURST,
    CHURN,
    CIRCLE,
    DEAD_LETTERS,
    EXPIRED,
    HOT_KEY,
    HOT_QUEUE,
    OUT_OF_ORDER,
    POISON,
    PREFETCH_HIGH,
    REJECTED,
    REPLAY,
    SLOW,
    STALLED,
)
from tests.analytics.incidents.independent.form import (
    HOUR,
    LAG,
    Cause,
    healthy_day,
    incident,
    message_consumer,
)
from tests.analytics.incidents.simulated_clients import ACK, REJECT, REQUEUE


@incident(1800, Cause((), ("vat.check",), (("vat-c", "10.4.0.3"),), 600, 120),
          also=[((POISON, CIRCLE, SLOW, REPLAY, OUT_OF_ORDER), "vat.check")])  # fmt: skip
def a_host_with_an_expired_certificate(day):
    """One of three hosts requeues everything at once; the two others do the work."""
    day.queue("vat.check")
    day.publisher("till", "vat.check", 2)
    for number, tag in enumerate(("vat-a", "vat-b", "vat-c"), 1):
        day.consumer("vat.check", takes_s=0.3, prefetch=4, tag=tag, host=f"10.4.0.{number}",
                     ends=lambda entry, now_s, tag=tag:
                     REQUEUE if tag == "vat-c" and now_s > 600 else ACK)  # fmt: skip


@incident(2400, Cause((SLOW, *LAG), ("scan.store",), (), 900, 180),
          also=[((SLOW, STALLED, *LAG), "scan.read")])  # fmt: skip
def a_second_step_that_holds_up_the_first(day):
    """What reads scans waits while 50 of its results wait for a program that has become slow."""
    day.queue("scan.read")
    stored = day.queue("scan.store")
    results = day.broker.connection("reader", "10.6.0.1")
    day.publisher("scanner", "scan.read", 1.5)

    def ends(_entry, _now_s):
        day.broker.publish(results, "", "scan.store", 4_000)
        return ACK

    for number in range(2):
        day.consumer("scan.read", prefetch=5, tag=f"reader-{number}", ends=ends,
                     takes_s=lambda *_: 0.3 if len(stored.ready) < 50 else 3)  # fmt: skip
    day.consumer("scan.store", prefetch=5, tag="store", host="10.6.0.9",
                 takes_s=lambda _, now_s: 0.2 if now_s < 900 else 1.6)  # fmt: skip


@incident(1800, Cause((PREFETCH_HIGH, STALLED, SLOW, REPLAY),
                      ("geo.lookup",), ("geo-1",)),
          also=[((PREFETCH_HIGH, STALLED, SLOW, REPLAY, CHURN, BURST, OUT_OF_ORDER),
                 "geo.lookup")])  # fmt: skip
def a_consumer_without_a_limit_hands_on_what_it_held(day):
    """It has fetched all that waits without a limit, and dies with 900; another gets them all."""
    day.queue("geo.lookup")
    day.publisher("fleet", "geo.lookup", 3)
    day.consumer("geo.lookup", takes_s=0.8, prefetch=0, tag="geo-1", dies_s=500, host="10.2.0.1")
    day.consumer("geo.lookup", takes_s=0.2, prefetch=0, tag="geo-2", from_s=498, host="10.2.0.2")


@incident(1800, Cause((EXPIRED,), ("seats.hold",), (), 900, 60))
def a_policy_that_lets_messages_expire(day):
    """At minute fifteen a policy sets a TTL of a second, which is less than they wait in a peak."""
    seats = day.queue("seats.hold")
    day.publisher("box-office", "seats.hold", bursts=tuple((at_s, 20, 2) for at_s in
                                                           range(10, 1790, 40)))  # fmt: skip
    day.consumer("seats.hold", takes_s=0.5, prefetch=1, tag="seats")
    day.at(900, lambda: setattr(seats, "ttl_s", 1.0))


@incident(
    2400, Cause((), ("orders.paid", "dev-laptop"), (("debug-console", "dev-laptop"),), 1200, 90)
)
def somebody_debugs_in_production(day):
    """A developer consumes with automatic acks for ten minutes, and gets half of the orders."""
    day.queue("orders.paid")
    day.publisher("shop", "orders.paid", 1)
    day.consumer("orders.paid", takes_s=0.3, prefetch=10, tag="fulfilment")
    day.consumer("orders.paid", no_ack=True, tag="debug-console", user="dev-laptop",
                 host="10.99.0.7", from_s=1200, dies_s=1800)  # fmt: skip


@incident(3600, Cause((), ("plant-3", "plants", "measurements"), ("plant-3",), 1500, 120))
def a_plant_that_falls_silent(day):
    """Four plants send a value every five seconds; one sends none from minute 25 on."""
    day.queue("measurements")
    day.bind("plants", "#", "measurements")
    for number in range(1, 5):
        day.publisher(f"plant-{number}", f"plant.{number}", 0.2, "plants", even=True,
                      until_s=1500 if number == 3 else 1e9)  # fmt: skip
    day.consumer("measurements", takes_s=0.05, prefetch=20, tag="historian")


@incident(1800, Cause((POISON, CIRCLE, STALLED), ("labels.print",), (), 600, 60))
def a_message_at_the_head_that_blocks_the_queue(day):
    """The only consumer prefetches one message, and requeues the same one every two seconds."""
    day.queue("labels.print")
    day.publisher("packing", "labels.print", 0.7)
    blocking = set()

    def ends(entry, now_s):
        if now_s > 600 and not blocking:
            blocking.add(entry.message.number)
        return REQUEUE if entry.message.number in blocking else ACK

    message_consumer(day, "labels.print", prefetch=1, tag="printer", ends=ends,
                     takes_s=lambda message: 2 if message.number in blocking else 0.4)  # fmt: skip


@incident(2400, Cause((SLOW, *LAG), ("import.rows",), (), 900, 180),
          also=[((SLOW, STALLED), "import.rows")])  # fmt: skip
def more_consumers_that_do_less(day):
    """Six consumers join two, all wait for the same lock, and each takes twelve times as long."""
    day.queue("import.rows")
    day.publisher("etl", "import.rows", 4)
    for number in range(8):
        day.consumer("import.rows", prefetch=10, tag=f"import-{number}", host=f"10.1.0.{number}",
                     from_s=900 if number > 1 else 0,
                     takes_s=lambda _, now_s: 0.3 if now_s < 900 else 3.6)  # fmt: skip


@incident(1800, Cause((CIRCLE, DEAD_LETTERS, REJECTED, POISON), ("mail.send", "mail.retry"), (),
                      700, 120),
          also=[((CIRCLE, DEAD_LETTERS, REJECTED, POISON, EXPIRED, HOT_QUEUE, BURST), name)
                for name in ("mail.send", "mail.retry")])  # fmt: skip
def retries_without_a_pause(day):
    """The pause before a retry becomes 0.2 s; mails to unknown addresses go round and round."""
    day.queue("mail.send", dead_letter_to=("", "mail.retry"))
    retry = day.queue("mail.retry", ttl_s=120, dead_letter_to=("", "mail.send"))
    day.publisher("crm", "mail.send", 1, properties={
        "type": lambda random, _: "unknown-address" if random.random() < 0.02 else "address",
    })  # fmt: skip

    def ends(entry, _now_s):
        return REJECT if entry.message.properties["type"] == "unknown-address" else ACK

    day.consumer("mail.send", takes_s=0.1, prefetch=10, tag="smtp", ends=ends)
    day.at(700, lambda: setattr(retry, "ttl_s", 0.2))


CUSTOMERS = [f"customer.{number}" for number in range(10, 40)]


@incident(2400, Cause((SLOW, HOT_KEY, STALLED, *LAG), ("statements", "accounts"), ("customer.17",),
                      600, 240),
          also=[((SLOW, HOT_KEY, STALLED), "statements")])  # fmt: skip
def one_customer_whose_statements_take_long(day):
    """One of thirty customers has grown; each of its statements takes 25 s, others half of one."""
    day.queue("statements")
    day.bind("accounts", "#", "statements")
    day.publisher("bank", lambda random, _: random.choice(CUSTOMERS), 2.5, "accounts")
    for number in range(4):
        message_consumer(day, "statements", prefetch=2, tag=f"statement-{number}",
                         takes_s=lambda message: 25 if message.key == "customer.17"
                         and day.broker.now_s > 600 else 0.5)  # fmt: skip


@healthy_day(HOUR)
def a_program_that_polls(day):
    """A program of another century fetches what is there every 30 s, as it always does."""
    day.queue("tickets.poll")
    day.publisher("helpdesk", "tickets.poll", 0.2)
    day.getter("tickets.poll", *every(5, 30, HOUR - 5), takes_s=0.05)
    day.busy_pair("tickets.live", 0.5)


@healthy_day(2 * HOUR)
def an_autoscaler(day):
    """The rate rises and falls within an hour, and consumers come and go with it."""
    day.queue("thumbnails")
    rates = [(at_s, 1.2 + math.sin(at_s / 3600 * math.tau)) for at_s in range(0, 7200, 120)]
    day.publisher("uploads", "thumbnails", rates)
    for number in range(6):
        needed = [at_s for at_s, rate in rates if rate > number * 0.42]
        begins = [one for one in needed if one - 120 not in needed]
        ends = [one + 240 for one in needed if one + 120 not in needed]
        for from_s, until_s in zip(begins, ends, strict=True):
            day.consumer("thumbnails", takes_s=0.9, prefetch=2, tag=f"thumb-{number}-{from_s}",
                         host=f"10.40.0.{number}", from_s=from_s, dies_s=until_s)  # fmt: skip


@healthy_day(HOUR)
def programs_that_number_their_messages(day):
    """Three programs number their messages from one on: equal ids are of different messages."""
    day.queue("audit.log")

    def numbers():
        count = 0

        def identity(_random, _now_s):
            nonlocal count
            count += 1
            return str(count)

        return identity

    for name in ("billing", "crm", "stock"):
        day.publisher(name, "audit.log", 0.4, message_id=numbers(),
                      properties={"app_id": name})  # fmt: skip
    day.consumer("audit.log", takes_s=0.05, prefetch=20, tag="audit")


@healthy_day(HOUR)
def from_the_blue_queue_to_the_green_one(day):
    """A new version has a queue of its own; when it runs, the old one is unbound and deleted."""
    blue = day.queue("offers.blue")
    day.bind("offers", "#", "offers.blue")
    day.publisher("crm", "offer.changed", 1, "offers")
    for number in range(2):
        day.consumer("offers.blue", takes_s=0.2, prefetch=5, tag=f"blue-{number}", dies_s=1830)

    def switch():
        day.broker._bindings["offers"] = [("#", ("offers.green",))]

    day.queue("offers.green")
    for number in range(2):
        day.consumer("offers.green", takes_s=0.2, prefetch=5, tag=f"green-{number}", from_s=1750)
    day.at(1800, switch)
    day.at(1840, blue.delete)


@healthy_day(HOUR)
def workers_that_live_for_a_minute(day):
    """A scheduler starts a worker every 30 s, which lives for 65 s, as it has always done."""
    day.queue("resize")
    day.publisher("cms", "resize", 0.8)
    for number, at_s in enumerate([0.0, *every(5, 30, HOUR - 5)]):
        day.consumer("resize", takes_s=0.3, prefetch=1, tag=f"job-{number}", user="jobs",
                     from_s=at_s, cancels_s=at_s + 62, dies_s=at_s + 65, opens=True)  # fmt: skip
