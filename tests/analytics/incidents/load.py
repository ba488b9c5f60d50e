"""Incidents of load: queues and keys that get most of it, bursts, and prefetch limits."""

from tests.analytics.incidents.incident import (
    BACKLOG,
    BURST,
    HOT_KEY,
    HOT_QUEUE,
    PREFETCH_HIGH,
    PREFETCH_LOW,
    SLOW,
    STALLED,
    SYMPTOMS,
    WAITS,
    Says,
    incident,
)

HOUR, DAY = 3600, 86_400


def sharded(day, count, weights, rate, takes_s, name="shard"):
    """Declare queues of one exchange, of which each has its consumer, with uneven traffic."""
    for number in range(count):
        day.queue(f"{name}.{number}")
        day.bind(name, f"key.{number}", f"{name}.{number}")
        day.consumer(f"{name}.{number}", takes_s=takes_s, tag=f"{name}-{number}")
    keys = [f"key.{number}" for number in range(count)]
    day.publisher("app", lambda random, _: random.choices(keys, weights)[0], rate, name)


KEY_OF_SHARD = Says(HOT_KEY, "shard")


@incident(HOUR, [Says(HOT_QUEUE, "shard.3", None, None)], (*SYMPTOMS, KEY_OF_SHARD))
def one_of_eight_shards_gets_most(day):
    """One of eight shards gets 80% of the messages, and its consumer cannot keep up."""
    sharded(day, 8, [1, 1, 1, 28, 1, 1, 1, 1], 2, 0.7)


@incident(2 * HOUR, [Says(HOT_QUEUE, "tenant.2", 3600, None, within_s=400)],
          (*SYMPTOMS, Says(HOT_KEY, "tenant"), Says(BURST, "tenant.2")))  # fmt: skip
def a_tenant_becomes_hot(day):
    """From half time on, one of six tenants sends fifteen times as much, and its queue fills."""
    for number in range(6):
        day.queue(f"tenant.{number}")
        day.bind("tenant", f"t{number}", f"tenant.{number}")
        day.consumer(f"tenant.{number}", takes_s=0.8, tag=f"tenant-{number}")
        rate = [(0, 0.12), (3600, 1.8)] if number == 2 else 0.12
        day.publisher(f"tenant{number}", f"t{number}", rate, "tenant")


@incident(DAY, [Says(HOT_QUEUE, "region.eu", None, None)], (*SYMPTOMS, Says(HOT_KEY, "region")))
def a_region_with_too_much(day):
    """One of five regional queues gets nine tenths of a day's orders, and is behind all day."""
    regions = ("eu", "us", "jp", "br", "za")
    for name in regions:
        day.queue(f"region.{name}")
        day.bind("region", name, f"region.{name}")
        day.consumer(f"region.{name}", takes_s=26, tag=name)
    day.publisher(
        "shop", lambda random, _: random.choices(regions, [36, 1, 1, 1, 1])[0], 0.05, "region"
    )


@incident(300, [Says(HOT_QUEUE, "hash.0", None, None)], (*SYMPTOMS, Says(HOT_KEY, "hash")))
def a_bad_hash(day):
    """A hash sends nearly everything to the first of ten queues."""
    sharded(day, 10, [60, *[1] * 9], 20, 0.08, "hash")


@incident(HOUR, [Says(HOT_KEY, "metrics", None, None, ("cpu",))])
def one_of_forty_keys_gets_half(day):
    """One of forty keys has more than half of the messages of an exchange."""
    day.queue("metrics.all")
    day.bind("metrics", "#", "metrics.all")
    keys = ["cpu", *(f"m{number}" for number in range(39))]
    day.publisher(
        "agent", lambda random, _: random.choices(keys, [45, *[1] * 39])[0], 1.5, "metrics"
    )
    day.consumer("metrics.all", takes_s=0.01, no_ack=True)


# Bursts


@incident(2 * HOUR, [Says(BURST, "mail", None, None, ("newsletter",))], SYMPTOMS)
def a_newsletter_before_the_passwords(day):
    """Every hour a newsletter of 1,200 mails comes in 20 s; password mails wait for minutes."""
    day.queue("mail")
    day.publisher("login", "mail", 0.1)
    day.publisher("newsletter", "mail", bursts=((1800, 1200, 20), (5400, 1200, 20)))
    day.consumer("mail", takes_s=0.4, prefetch=10)


@incident(HOUR, [Says(BURST, "prices", 1500, None, ("importer",))], SYMPTOMS)
def an_import_in_working_hours(day):
    """An import of 2,500 prices comes at once, and changes of single prices wait behind it."""
    day.queue("prices")
    day.publisher("desk", "prices", 0.2)
    day.publisher("importer", "prices", bursts=((1500, 2500, 8),))
    day.consumer("prices", takes_s=0.3, prefetch=50)


@incident(600, [Says(BURST, "gps", 120, within_s=15)], SYMPTOMS)
def a_gateway_sends_what_it_kept(day):
    """A gateway that was offline sends 1,500 positions within 2 s; the others wait for a minute."""
    day.queue("gps")
    day.publisher("fleet", "gps", 2)
    day.publisher("gateway", "gps", bursts=((120, 1500, 2),))
    day.consumer("gps", takes_s=0.04, prefetch=20)


@incident(3 * HOUR, [Says(BURST, "push", None, None, ("campaign",))], SYMPTOMS)
def campaigns_of_different_sizes(day):
    """Three campaigns, of 300 to 1,500 messages, each delay the messages of the shop."""
    day.queue("push")
    day.publisher("shop", "push", 0.05)
    day.publisher("campaign", "push",
                  bursts=((2000, 300, 5), (5000, 1500, 30), (9000, 700, 10)))  # fmt: skip
    day.consumer("push", takes_s=0.5, prefetch=20)


# Prefetch limits


@incident(
    HOUR, [Says(PREFETCH_HIGH, "video", None, None, ("video-1",))], (*SYMPTOMS, STALLED, SLOW)
)
def one_has_everything(day):
    """One consumer gets all 60 messages at once; two that come later have nothing to do."""
    day.queue("video")
    day.publisher("upload", "video", bursts=((60, 60, 5), (1900, 60, 5)))
    day.consumer("video", takes_s=25, prefetch=250, tag="video-1")
    for number in (2, 3):
        day.consumer("video", takes_s=25, prefetch=250, tag=f"video-{number}", from_s=90,
                     dies_s=1850)  # fmt: skip


@incident(2 * HOUR, [Says(PREFETCH_HIGH, "ocr", 600, None)], (*SYMPTOMS, STALLED, SLOW, BURST))
def no_limit_and_idle_helpers(day):
    """A consumer without a limit takes 900 messages; three consumers that are started to help it
    get nothing.
    """
    day.queue("ocr")
    day.publisher("scanner", "ocr", bursts=((600, 900, 10),))
    day.consumer("ocr", takes_s=7, prefetch=0, tag="ocr-1")
    for number in (2, 3, 4):
        day.consumer("ocr", takes_s=7, prefetch=0, tag=f"ocr-{number}", from_s=900)


@incident(HOUR, [Says(PREFETCH_HIGH, "etl", None, None)], (*SYMPTOMS, STALLED, SLOW, BURST))
def thousands_in_one_consumer(day):
    """A consumer without a limit holds up to 3,000 messages, each of which waits in it."""
    day.queue("etl")
    day.publisher("db", "etl", bursts=((300, 3000, 30),))
    day.consumer("etl", takes_s=0.9, prefetch=0, tag="loader")


@incident(1200, [Says(PREFETCH_LOW, "remote", None, None)], SYMPTOMS)
def one_at_a_time_over_a_long_line(day):
    """A consumer 90 ms away takes 1 ms for a message, one at a time; messages pile up."""
    day.queue("remote")
    day.publisher("plant", "remote", [(0, 5), (300, 14)])
    day.consumer("remote", takes_s=0.001, prefetch=1, round_trip_s=0.09)


@incident(600, [Says(PREFETCH_LOW, "ticks", None, None)], SYMPTOMS)
def one_at_a_time_in_two_consumers(day):
    """Two consumers with a prefetch limit of 1 are 30 ms away; 100 messages come per second."""
    day.queue("ticks")
    day.publisher("feed", "ticks", [(0, 20), (540, 100)])
    for number in range(2):
        day.consumer("ticks", takes_s=0.0005, prefetch=1, round_trip_s=0.03, tag=f"tick-{number}")


@incident(HOUR, [Says(PREFETCH_LOW, "logs", 1800, None, within_s=300)], SYMPTOMS)
def one_at_a_time_since_an_update(day):
    """Since an update a consumer has a prefetch limit of 1, and cannot keep up."""
    day.queue("logs")
    day.publisher("app", "logs", [(0, 1), (1800, 8), (2400, 1)])
    day.consumer("logs", takes_s=0.001, prefetch=50, round_trip_s=0.15, dies_s=1800, tag="log-1")
    day.consumer("logs", takes_s=0.001, prefetch=1, round_trip_s=0.15, from_s=1801, tag="log-2")


@incident(HOUR, [Says(BACKLOG, "mixed", 1800, None)], (WAITS, HOT_QUEUE, BURST))
def all_publishers_send_more(day):
    """All of three publishers double their rates, which is too much."""
    day.queue("mixed")
    for user in ("a", "b", "c"):
        day.publisher(f"user-{user}", "mixed", [(0, 0.4), (1800, 0.8)])
    day.consumer("mixed", takes_s=0.6, prefetch=20)
