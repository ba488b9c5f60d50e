"""Days on which all is as the operators want it, and a report should be silent."""

from tests.analytics.incidents.connections import every
from tests.analytics.incidents.incident import CHURN, DEAD_LETTERS, EXPIRED, HOT_KEY, HOT_QUEUE
from tests.analytics.incidents.independent.form import (
    DAY,
    HOUR,
    calls_with_reply_queues,
    healthy_day,
    numbered,
)
from tests.analytics.incidents.requesters import requesters, server
from tests.analytics.incidents.simulated_clients import ACK, REJECT


@healthy_day(DAY, begins_s=0)
def a_batch_at_two_in_the_morning(day):
    """3,000 statements come at two and are done before four; nothing else needs the queue then."""
    day.queue("statements.print")
    day.publisher("mainframe", "statements.print", bursts=((2 * HOUR, 3000, 120),))
    day.publisher("desk", "statements.print", [(0, 0), (8 * HOUR, 0.01), (18 * HOUR, 0)])
    day.consumer("statements.print", takes_s=2, prefetch=10, tag="printer")


@healthy_day(HOUR)
def spam_that_is_filtered_by_rejection(day):
    """The filter rejects 7 in 10 mails to the queue of the quarantine, which is consumed."""
    day.queue("mail.quarantine")
    day.queue("mail.in", dead_letter_to=("", "mail.quarantine"))
    day.publisher("mx", "mail.in", 0.5)
    day.consumer("mail.in", takes_s=0.1, tag="filter",
                 ends=lambda entry, _: (
                     REJECT if entry.message.number % 10 < 7 else ACK))  # fmt: skip
    day.consumer("mail.quarantine", takes_s=0.2, prefetch=20, tag="quarantine")


@healthy_day(1800)
def the_last_value_of_each_sensor(day):
    """Three queues keep the last value of a sensor, which a display reads every two seconds."""
    for number in range(3):
        day.queue(f"last.sensor{number}", length_max=1)
        day.publisher(f"sensor{number}", f"last.sensor{number}", 1)
        day.consumer(f"last.sensor{number}", takes_s=2, prefetch=1, tag=f"display-{number}")


@healthy_day(DAY, begins_s=0)
def business_hours(day):
    """Messages come from 9 to 17 h, and consumers run from 8 to 18 h."""
    day.queue("antraege")
    day.publisher("amt", "antraege", [(0, 0), (9 * HOUR, 0.05), (17 * HOUR, 0)])
    for number in range(2):
        day.consumer("antraege", takes_s=5, prefetch=2, tag=f"sachbearbeitung-{number}",
                     from_s=8 * HOUR, dies_s=18 * HOUR + number)  # fmt: skip


@healthy_day(HOUR)
def a_canary_and_then_all(day):
    """One of six consumers is replaced by version 2, and half an hour later the others."""
    day.queue("cart.events")
    day.publisher("site", "cart.events", 0.6)
    for number in range(6):
        at_s = 600 if number == 0 else 2400 + 40 * number
        day.consumer("cart.events", takes_s=0.2, prefetch=10, tag=f"v1-{number}", dies_s=at_s)
        day.consumer("cart.events", takes_s=0.2, prefetch=10, tag=f"v2-{number}", from_s=at_s + 10)


@healthy_day(6 * HOUR)
def a_backlog_that_drains_as_usual(day):
    """Every hour 400 rows come at once and are done seven minutes later, as always."""
    day.queue("erp.rows")
    day.publisher("erp", "erp.rows", bursts=tuple((at, 400, 3) for at in every(HOUR, 60, 6 * HOUR)))
    day.consumer("erp.rows", takes_s=1, prefetch=20, tag="loader")


@healthy_day(600, also=[((CHURN,), "web")])
def calls_with_direct_replies(day):
    """Requests of short-lived clients get their direct replies in 0.2 s."""
    day.queue("rpc.tax")
    requesters(day, "rpc.tax", every(3, 0, 590), 1)
    server(day, "rpc.tax", 0.2, "tax-1")
    server(day, "rpc.tax", 0.2, "tax-2")


@healthy_day(600)
def calls_with_reply_queues_that_arrive(day):
    """Each request has a temporary reply queue, which is deleted when its reply is there."""
    day.queue("rpc.geo")
    calls_with_reply_queues(day, "rpc.geo", every(3, 0, 590), 1.5)
    server(day, "rpc.geo", 0.15, "geo-1")


@healthy_day(HOUR)
def old_and_new_machines(day):
    """Two of five consumers run on machines that need four times as long, as they always do."""
    day.queue("video.thumbs")
    day.publisher("cms", "video.thumbs", 0.7)
    for number in range(5):
        day.consumer("video.thumbs", takes_s=1.2 if number < 2 else 0.3, prefetch=3,
                     tag=f"thumb-{number}")  # fmt: skip


@healthy_day(HOUR, also=[((EXPIRED, DEAD_LETTERS), "hooks.wait5")])
def webhooks_that_succeed_at_the_second_attempt(day):
    """One in fifty webhooks fails once, waits for five seconds, and then succeeds."""
    day.queue("hooks", dead_letter_to=("", "hooks.wait5"))
    day.queue("hooks.wait5", ttl_s=5, dead_letter_to=("", "hooks"))
    day.publisher("app", "hooks", 0.5)
    day.consumer("hooks", takes_s=0.15, prefetch=10, tag="caller", ends=lambda entry, _: (
        REJECT if entry.message.number % 50 == 0 and not entry.message.letters else ACK
    ))  # fmt: skip


@healthy_day(1200)
def an_event_for_ten_services(day):
    """Each event, with its id, goes to the queues of ten services, which all keep up."""
    names = [f"svc.{name}.events" for name in ("auth", "cart", "crm", "geo", "img", "log", "mail",
                                               "pay", "stock", "user")]  # fmt: skip
    for name in names:
        day.queue(name)
        day.consumer(name, takes_s=0.05, tag=f"{name}-1")
    day.bind("domain-events", "#", *names)
    day.publisher("core", lambda random, _: random.choice(("made", "sold")), 0.2, "domain-events",
                  message_id=numbered("event-"))  # fmt: skip


@healthy_day(8 * HOUR)
def films_that_take_a_quarter_of_an_hour(day):
    """Four encoders take 10 to 15 minutes for a film, one at a time, and manage what comes."""
    day.queue("encode.4k")
    day.publisher("studio", "encode.4k", 1 / 260, even=True)
    for number in range(4):
        day.consumer("encode.4k", takes_s=lambda random, _: random.uniform(600, 900), prefetch=1,
                     tag=f"encoder-{number}")  # fmt: skip


@healthy_day(DAY, begins_s=0, also=[((HOT_KEY, HOT_QUEUE), "player")])
def an_evening_peak(day):
    """From 18 to 23 h four times as much comes, and four consumers more are there for it."""
    day.queue("watch.progress")
    day.bind("player", "progress", "watch.progress")
    day.publisher("tv", "progress", [(0, 0.02), (18 * HOUR, 0.08), (23 * HOUR, 0.02)], "player")
    for number in range(6):
        day.consumer("watch.progress", takes_s=8, prefetch=2, tag=f"progress-{number}",
                     from_s=17.9 * HOUR if number > 1 else 0,
                     dies_s=23.2 * HOUR + number if number > 1 else None)  # fmt: skip
