"""The records of a trace with known facts, in two files."""

from tests.analytics.logs import MINUTE_US, SECOND_US, START_US, event, write_log


def at(seconds):
    return START_US + int(seconds * SECOND_US)


def delivered(seconds, message, queue, consumer="ctag", **more):
    return event(
        "deliver", at(seconds), message=message, queue=queue, consumer_tag=consumer,
        connection=f"of {consumer}", **more,
    )  # fmt: skip


def published(seconds, message, queues, **more):
    fields = {"exchange": "orders", "connection": "producer", **more}
    return event("publish", at(seconds), message=message, queues=queues, **fields)


def records():
    found = [
        event("open", at(0), connection="producer"),
        # 1: acknowledged quickly. 2: in two queues, acknowledged slowly in one, never in the other.
        published(1, 1, ["a"], properties={"message_id": "twin"}),
        delivered(1.5, 1, "a", "quick"),
        event("ack", at(1.75), message=1, queue="a", connection="of quick"),
        published(2, 2, ["a", "b"], properties={"message_id": "twin"}, body_size=1024),
        delivered(2.25, 2, "a", "slow"),
        event("ack", at(12.25), message=2, queue="a", connection="of slow"),
        delivered(3, 2, "b", "stuck"),
        # 3: expires, returns through a retry queue, is finally rejected.
        published(4, 3, ["retry"], properties={"correlation_id": "c3"}),
        event("expire", at(5), message=3, queue="retry"),
        event("dead_letter", at(5), message=3, queue="retry", reason="expired", new_message=4,
              exchange="", routing_keys=["a"], queues=["a"]),
        delivered(6, 4, "a", "slow"),
        event("reject", at(7), message=4, queue="a", connection="of slow"),
        event("dead_letter", at(7), message=4, queue="a", reason="rejected", new_message=5,
              exchange="dlx", routing_keys=["dead"], queues=["graveyard"]),
        # 6: unroutable. 7: purged. 8: dropped. 9: never delivered.
        published(8, 6, [], routing_keys=["nowhere"]),
        event("return", at(8), message=6, exchange="orders", routing_keys=["nowhere"]),
        published(9, 7, ["purged"]),
        event("drop", at(10), queue="purged", reason="purge", count=1),
        published(11, 8, ["short"]),
        event("drop", at(11), message=8, queue="short", reason="maxlen"),
        published(12, 9, ["idle"]),
        event("gap", at(13), until_us=at(14), lost=77),
    ]  # fmt: skip
    # 10: delivered seven times.
    found.append(published(20, 10, ["b"]))
    for turn in range(7):
        found.append(delivered(21 + turn, 10, "b", "crashing", redelivered=turn > 0))
        found.append(event("requeue", at(21.5 + turn), message=10, queue="b"))
    found.append(event("close", at(40), connection="producer"))
    # Half an hour of steady traffic, except for one minute.
    number = 100
    for minute in range(1, 31):
        for _ in range(100 if minute == 17 else 10):
            number += 1
            time_us = START_US + minute * MINUTE_US + number
            found.append(event("publish", time_us, message=number, exchange="steady",
                               queues=["steady"]))  # fmt: skip
            found.append(event("deliver", time_us + 1, message=number, exchange="steady",
                               queue="steady", no_ack=True))  # fmt: skip
    return found


def write_known_trace(directory, part=None):
    """Write one of the two parts, 0 or 1, or both. The second one has an invalid line."""
    found = records()
    half = len(found) // 2
    parts = [found[:half], [*found[half:], {"event": "sneeze", "time_us": at(50)}]]
    for number, one in enumerate(parts):
        if part in (None, number):
            write_log(directory, one, name=str(number))
