"""Incidents of connections, of messages that are published twice, and of gaps in the trace."""

from tests.analytics.incidents.incident import (
    CHURN,
    DUPLICATES,
    GAP,
    STALLED,
    SYMPTOMS,
    WAITS,
    Says,
    incident,
)

HOUR = 3600


def opens_and_closes(day, user, times_s, lives_s, key=None, host="10.0.0.5"):
    """Open a connection at each time, publish a message, and close it."""
    broker = day.broker

    def begin():
        who = broker.connection(user, host)
        broker.write("open", **{**who, "channel": 0})
        if key:
            broker.publish(who, "", key)
        broker.at(broker.now_s + lives_s, lambda: broker.write("close", **{**who, "channel": 0}))

    for at_s in times_s:
        day.at(at_s, begin)


def every(period_s, from_s, until_s):
    """Return times in a range."""
    return [from_s + number * period_s for number in range(int((until_s - from_s) / period_s))]


@incident(1800, [Says(CHURN, "php", None, None)])
def a_connection_for_each_message(day):
    """A web page opens a connection for each message, twice a second."""
    day.queue("visits")
    opens_and_closes(day, "php", every(0.5, 0, 1800), 0.05, "visits")
    day.consumer("visits")


@incident(2 * HOUR, [Says(CHURN, "sensor", 3600)])
def a_client_reconnects_every_few_seconds(day):
    """Since half time a client's connection is closed after 2 s; it connects again, every 5 s."""
    day.busy_pair("readings", 0.3)
    opens_and_closes(day, "sensor", every(5, 3600, 2 * HOUR), 2)


@incident(HOUR, [Says(CHURN, "lambda", 1200, 1800)])
def many_short_functions(day):
    """For ten minutes functions connect, publish and leave, three in a second."""
    day.busy_pair("uploads", 0.2)
    opens_and_closes(day, "lambda", every(1 / 3, 1200, 1800), 0.4, "uploads")


@incident(300, [Says(CHURN, "probe", None, None)])
def a_health_check_that_logs_in(day):
    """A health check opens and closes a connection each second."""
    day.busy_pair("orders", 3)
    opens_and_closes(day, "probe", every(1, 0, 300), 0.02)


@incident(HOUR, [Says(DUPLICATES, "payments", None, None)])
def a_publisher_repeats_itself(day):
    """A publisher that does not get its confirms in time sends 30 messages again."""
    day.queue("payments")
    sent = []

    def twice(_random, now_s):
        if 1000 < now_s < 1100 and len(sent) < 30:
            sent.append(now_s)
        return f"pay-{len(sent) // 2 if 0 < len(sent) < 30 else now_s}"

    day.publisher("bank", "payments", 1, message_id=twice)
    day.consumer("payments")


@incident(HOUR, [Says(GAP, "", 1500)], (*(Says(one, "orders") for one in (STALLED, WAITS)),))
def a_gap_in_the_trace(day):
    """For a minute the disk was too slow, and the trace lacks 300 records."""
    day.queue("orders")
    day.publisher("shop", "orders", [(0, 1), (1500, 0), (1560, 1)])
    day.consumer("orders", takes_s=0.005)
    day.gap(1500, 60, 300)


@incident(HOUR, [Says(CHURN, "batch", 600, 900), Says(STALLED, "slips", 2000, 2600)], SYMPTOMS)
def two_things_at_once(day):
    """A job opens hundreds of connections; later a consumer of another queue stalls."""
    day.queue("slips")
    day.publisher("shop", "slips", 0.8)
    day.consumer("slips", takes_s=0.1, prefetch=30, stalls=((2000, 2600),))
    opens_and_closes(day, "batch", every(0.5, 600, 900), 0.1)
