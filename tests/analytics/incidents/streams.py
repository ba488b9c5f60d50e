"""Incidents of streams: consumers that fall behind, and those that only look like it."""

from tests.analytics.incidents.incident import (
    FALLS_BEHIND,
    OVERTAKEN,
    Says,
    incident,
    quiet_day,
)
from tests.analytics.incidents.simulated_log import SECOND_US

HOUR = 3600
SIZE = 200


def rate_at(rate, time_s):
    """A rate, or the last of pairs of a time and a rate."""
    if not isinstance(rate, list):
        return rate
    return [value for from_s, value in rate if from_s <= time_s][-1]


class Stream:
    """A stream, to which a program publishes each second, and that consumers read each second."""

    def __init__(self, day, name, rate, max_age_s=None, max_bytes=None, segment_bytes=100_000,
                 already=0):  # fmt: skip
        """already: messages that were published, at the same rate, before the trace."""
        self.day, self.broker, self.name, self.rate = day, day.broker, name, rate
        self.max_age_s, self.max_bytes, self.segment_bytes = max_age_s, max_bytes, segment_bytes
        self.first, self.end, self.left = 0, already, 0.0
        self.times = [-(already - place) / rate_at(rate, 0) for place in range(already)]
        self.who = self.broker.connection("shop")
        for second in range(int(day.length_s)):
            day.at(second, self.publish)

    def limits(self):
        age_us = None if self.max_age_s is None else self.max_age_s * SECOND_US
        return {"first_offset": self.first, "max_age_us": age_us, "max_bytes": self.max_bytes,
                "segment_bytes": self.segment_bytes}  # fmt: skip

    def publish(self):
        now_s = self.broker.now_s
        self.left += rate_at(self.rate, now_s)
        count, self.left = int(self.left), self.left % 1
        if count:
            self.times += [now_s] * count
            self.broker.write("append", **self.who, queue=self.name, publisher="", messages=count,
                              body_size=count * SIZE)  # fmt: skip
            self.broker.write("commit", **self.chunk(self.end, count), **self.limits())
            self.end += count
        self.retain()

    def chunk(self, offset, count):
        published_us = self.broker._begins_us + int(self.times[offset] * SECOND_US)
        return {"queue": self.name, "offset": offset, "messages": count, "body_size": count * SIZE,
                "published_us": published_us}  # fmt: skip

    def retain(self):
        segment = self.segment_bytes // SIZE
        first = self.first
        while self.end - self.first > segment and (
            (self.max_bytes is not None and (self.end - self.first) * SIZE > self.max_bytes)
            or (self.max_age_s is not None
                and self.times[self.first + segment - 1] < self.broker.now_s - self.max_age_s)
        ):  # fmt: skip
            self.first += segment
        if self.first > first:
            self.broker.write("retain", queue=self.name, **self.limits())

    def reader(self, tag, rate, start=0, from_s=0.0, until_s=1e9, stores_as=None, user="billing",
               ends=True):  # fmt: skip
        """A consumer that reads at a rate. start: an offset, or None for what comes next."""
        Reader(self, tag, rate, start, from_s, until_s, stores_as, user, ends)
        return self


class Reader:
    """A consumer."""

    def __init__(self, stream, tag, rate, start, from_s, until_s, stores_as, user, ends):
        self.stream, self.tag, self.rate, self.start = stream, tag, rate, start
        self.stores_as, self.left, self.at = stores_as, 0.0, None
        self.broker, self.who = stream.broker, stream.broker.connection(user)
        self.until_s = min(until_s, stream.day.length_s)
        for second in range(int(from_s), int(self.until_s)):
            stream.day.at(second + 0.5, self.read)
        if ends and until_s < stream.day.length_s:
            stream.day.at(until_s, self.end)

    def read(self):
        stream = self.stream
        if self.at is None:
            self.at = stream.end if self.start is None else self.start
        self.at = max(self.at, stream.first)
        self.left += rate_at(self.rate, self.broker.now_s)
        count = min(int(self.left), stream.end - self.at)
        self.left %= 1
        if count:
            chunk = stream.chunk(self.at, count)
            self.at += count
            self.broker.write("read", **self.who, **chunk, consumer_tag=self.tag,
                              lag=stream.end - self.at, filtered=False)  # fmt: skip
            if self.stores_as:
                self.broker.write("store_offset", **self.who, queue=stream.name,
                                  consumer_tag=self.stores_as, offset=self.at - 1)  # fmt: skip

    def end(self):
        self.broker.write("end_reading", **self.who, queue=self.stream.name, consumer_tag=self.tag)


BILLING = "consumer billing reads 4 messages a second of 5.5; at this rate it loses messages from"


@incident(HOUR, [Says(FALLS_BEHIND, "orders", 1800, None, (BILLING,))], unsaid=("audit",))
def a_consumer_reads_less_than_is_published(day):
    """From half time on, billing reads 40 messages for 55; another consumer reads everything."""
    stream = Stream(day, "orders", 5.5, max_age_s=2 * HOUR)
    stream.reader("subscription 0", [(0, 50), (1800, 4)], stores_as="billing")
    stream.reader("audit", 50, user="audit")


@incident(HOUR, [Says(FALLS_BEHIND, "events", 600, None, ("loses messages from", "max-length"))])
def a_consumer_that_the_size_will_overtake(day):
    """It reads half of what comes, from a stream that keeps 20,000 messages."""
    stream = Stream(day, "events", 8, max_bytes=20_000 * SIZE)
    stream.reader("slow", [(0, 30), (600, 4)], stores_as="slow")


@incident(HOUR, [Says(FALLS_BEHIND, "jobs", 900, None, ("reads 0 messages a second",))])
def a_consumer_that_stalls(day):
    """It reads nothing any longer, and stores no offset."""
    Stream(day, "jobs", 5, max_age_s=3 * HOUR).reader("worker", [(0, 50), (900, 0)])


@incident(HOUR, [Says(FALLS_BEHIND, "kept", 1200, None, ("nothing removes",))])
def a_consumer_of_a_stream_without_limits(day):
    """It is further and further behind, but loses nothing."""
    Stream(day, "kept", 5).reader("late", [(0, 50), (1200, 3)])


@incident(2 * HOUR, [Says(OVERTAKEN, "short", None, None, ("late", "lost"))])
def a_consumer_that_was_overtaken(day):
    """A stream keeps 10 minutes; its consumer reads a third, and skips what is gone."""
    Stream(day, "short", 6, max_age_s=600, segment_bytes=60_000).reader("late", 2)


@quiet_day(HOUR)
def a_reader_from_the_beginning_that_catches_up(day):
    """A new consumer reads 20,000 old messages while others come."""
    stream = Stream(day, "history", 5, max_age_s=24 * HOUR, already=20_000)
    stream.reader("new", 9, from_s=60)


@quiet_day(HOUR)
def a_consumer_that_pauses_at_its_offset(day):
    """One disconnects after it has stored its offset, one stays and reads nothing."""
    stream = Stream(day, "batches", 5, max_age_s=24 * HOUR)
    stream.reader("nightly", 50, until_s=600, stores_as="nightly")
    stream.reader("paused", [(0, 50), (900, 0)], stores_as="paused", user="reports")


@quiet_day(HOUR)
def a_consumer_of_what_comes_next(day):
    """It begins at the end of a stream of 30,000 messages."""
    stream = Stream(day, "live", 5, max_age_s=24 * HOUR, already=30_000)
    stream.reader("screen", 50, start=None, from_s=300)


@quiet_day(HOUR)
def a_burst_at_the_end(day):
    """In the last minutes five times as much comes as the consumer can read."""
    stream = Stream(day, "bursts", [(0, 4), (3400, 40)], max_age_s=24 * HOUR)
    stream.reader("steady", 8)


@quiet_day(HOUR)
def a_reader_that_reads_every_ten_minutes(day):
    """It is behind again and again, and has read everything a minute later."""
    rates = [pair for ten in range(7) for pair in ((600 * ten, 100), (600 * ten + 60, 0))]
    Stream(day, "polled", 5, max_age_s=24 * HOUR).reader("poll", rates)
