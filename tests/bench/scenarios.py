"""The rows of the benchmark: one declaration each.

A `Load` (loads.py) runs twice per round on each broker, first at full speed, for the rates, the
CPU time per message and the memory, and then at a fixed rate, for the latencies; once only if it
has a rate itself. `Idle` and `Declare` are measured once, before any load, while the brokers'
memory is fresh. Messages of "varied" loads, of shapes and of features are as programs send them:
each has its size, a content type, two headers, a message id of its own and a timestamp. In the
equal loads a publisher's messages differ in their bodies only, from which a broker may benefit; in
"mixed" and "topic" consecutive messages differ, too. All numbers are of delivered messages: with a
fan-out to ten queues each published message counts ten times, and its fixed rate is set
accordingly.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from .loads import DELIVERED, HALF, Load, Target, pairs, varied

WINDOW = 1000
CONFIRMED = {"window": WINDOW, "auto_ack": False}
TO_TEN = {"queues": 10, "consumers": 10}

VARIED = (
    varied("varied-auto-ack", "varied, auto-ack", target=Target(1 / 8, 5), has_bound=True),
    varied(
        "varied-confirms",
        "varied, confirms (1,000 open), ack each",
        target=Target(1 / 12, 8),
        has_bound=True,
        window=WINDOW,
        auto_ack=False,
    ),
    varied(
        "varied-in-turn",
        "varied, the same to 10 queues in turn",
        target=Target(1 / 6, 5),
        in_turn=True,
        **CONFIRMED,
        **TO_TEN,
    ),
    varied(
        "varied-durable",
        "varied, persistent, confirms (1,000 open), an ack for 50",
        target=Target(1 / 10, 6),
        has_bound=True,
        durable=True,
        ack_every=50,
        **CONFIRMED,
    ),
    varied("varied-64", "varied, 64 B, auto-ack", 64, target=Target(1 / 6, 5), has_bound=True),
    varied(
        "varied-pairs-8",
        "varied, 8 publishers, 8 consumers, 8 queues, confirms, ack each",
        target=Target(1 / 10, 4, p99=1, is_p99_full=True, delivered=0.9),
        has_bound=True,
        **CONFIRMED,
        **pairs(8),
    ),
    varied(
        "varied-one-a-read",
        "varied, one message a read at 5,000/s, auto-ack",
        target=Target(1 / 3, p99=0.5),
        has_bound=True,
        rate=5000,
        burst=1,
        spaced=True,
    ),
    varied(
        "varied-pairs-20",
        "varied, 20 publishers, 20 consumers, 20 queues at 20,000/s, confirms, ack each",
        target=Target(1 / 3, p99=0.7),
        has_bound=True,
        rate=20_000,
        **CONFIRMED,
        **pairs(20),
    ),
)

SHAPES = (
    varied("shape-channels-2", "two channels in turn", channels=2),
    varied("shape-keys-1000", "1,000 routing keys", topology="thousand_keys"),
    varied("shape-keys-5000", "5,000 routing keys", topology="five_thousand_keys"),
    varied("shape-priorities", "priorities in a plain queue", properties="priorities"),
    varied("shape-three-headers", "three headers", properties="three_headers"),
)

FEATURES = tuple(
    replace(load, target=HALF)
    for load in (
        varied("feature-ttl-policy", "TTL by policy", topology="ttl_by_policy"),
        varied("feature-expiration", "per-message expiration", properties="expirations"),
        varied(
            "feature-max-length",
            "max-length 1,000, full, confirms",
            topology="max_length",
            consumers=0,
            copies=0,
            window=WINDOW,
        ),
        varied(
            "feature-priority",
            "priority queue of 10",
            topology="ten_priorities",
            properties="priorities",
        ),
        varied(
            "feature-dead-letters",
            "a chain of dead letters: expired twice",
            topology="dead_letters",
            in_flight=WINDOW,
        ),
        varied(
            "feature-topic",
            "topic, 1,000 bindings, 10,000 keys",
            topology="topic_of_many_keys",
            **TO_TEN,
        ),
        varied("feature-headers", "headers exchange, 20 bindings", topology="headers", **TO_TEN),
        varied(
            "feature-hash", "consistent hash to 10 queues", topology="consistent_hash", **TO_TEN
        ),
        varied("feature-alternate", "alternate exchange", topology="alternate"),
        varied("feature-mandatory", "mandatory, routable", mandatory=True),
        varied(
            "feature-returned",
            "mandatory, unroutable: returned",
            topology="unroutable",
            mandatory=True,
            consumers=0,
            in_flight=WINDOW,
        ),
        varied("feature-transactions", "transactions of 100", transaction=100, burst=100),
        varied(
            "feature-get",
            "basic.get by 4 clients, ack each",
            get=True,
            consumers=4,
            auto_ack=False,
            in_flight=WINDOW,
        ),
        varied("feature-fanout", "fan-out to 10 queues", topology="fanout", copies=10, **TO_TEN),
        varied("feature-consumers-10", "ten consumers on a queue", consumers=10),
        varied("feature-tls", "TLS", tls=True),
        varied("feature-channels-100", "100 channels in turn", channels=100),
        varied("feature-celery", "Celery's headers", properties="celery"),
        varied(
            "feature-tracing",
            "tracing: firehose on, copies to a queue of 1,000",
            topology="traced",
            is_traced=True,
        ),
    )
)

FULL_SPEED = tuple(
    varied(
        f"fair-{how}-{count}",
        f"{count} each of publishers, consumers and queues at full speed, {title}",
        target=DELIVERED,
        auto_ack=how == "auto-ack",
        **pairs(count),
    )
    for how, title in (("auto-ack", "auto-ack"), ("acks", "ack each"))
    for count in (1, 2, 4, 8, 20)
)
FAN_IN = tuple(
    varied(
        f"fair-fan-in-{publishers}",
        f"{publishers} publishers to one queue at full speed, consumers: {consumers}",
        target=DELIVERED,
        publishers=publishers,
        consumers=consumers,
    )
    for publishers, consumers in ((8, 1), (20, 4))
)

LARGE = (
    varied(
        "many-queues",
        "1,000 durable queues receiving in turn, persistent, confirms",
        topology="plain",
        publishers=4,
        consumers=0,
        queues=1000,
        copies=0,
        window=WINDOW,
        durable=True,
        target=Target(rate=10),
    ),
    varied("varied-large", "varied, 100 KB, auto-ack", 102_400, target=HALF, has_bound=True),
)

EQUAL = (
    Load("small", "16 B, auto-ack", size=16),
    Load("kilobyte", "1 KB, auto-ack"),
    Load("mixed", "16 B to 1 KB, taking turns, auto-ack", size=16, vary=1008),
    Load("confirms", "1 KB, confirms (1,000 open), ack each", window=WINDOW, auto_ack=False),
    *(
        Load(
            f"pairs-{count}",
            f"1 KB, {count} publishers, {count} consumers, {count} queues",
            publishers=count,
            consumers=count,
            queues=count,
        )
        for count in (2, 4, 8)
    ),
    Load(
        "fanout",
        "1 KB, fan-out to 10 queues",
        topology="fanout",
        copies=10,
        queues=10,
        consumers=10,
    ),
    Load("topic", "16 B, topic over 1,000 bindings", 16, topology="topic", queues=10, consumers=10),
    Load("large", "100 KB, auto-ack", size=102_400),
    Load(
        "durable",
        "1 KB persistent, confirms (1,000 open), an ack for 50",
        window=WINDOW,
        auto_ack=False,
        durable=True,
        ack_every=50,
    ),
)

ACROSS_NODES = {"is_clustered": True, "topology": "plain", "target": Target(1 / 3, 3), **CONFIRMED}
CLUSTERED = (
    varied(
        "cluster-transient", "cluster: to a queue on another node, from a third", **ACROSS_NODES
    ),
    varied(
        "cluster-durable",
        "cluster: the same, persistent, an ack for 50",
        durable=True,
        ack_every=50,
        **ACROSS_NODES,
    ),
)

MIRRORED = tuple(
    varied(
        f"mirrored-{nodes}-{how}",
        f"mirrored queue, {title}, {how}",
        is_clustered=True,
        is_at_queue=True,
        topology="plain",
        durable=how == "persistent",
        ack_every=50 if how == "persistent" else 1,
        target=Target(1 / 4, 4) if nodes == 3 else Target(),
        **CONFIRMED,
    )
    for nodes, title in ((1, "no mirror"), (2, "one mirror"), (3, "two mirrors"))
    for how in ("transient", "persistent")
)
"""Clients at the leader. The policies are in node_files.py."""

QUORUM = tuple(
    varied(
        f"quorum-{count}",
        f"quorum queue of three members, confirms, an ack for 50{title}",
        is_clustered=True,
        is_at_queue=True,
        topology="quorum",
        durable=True,
        ack_every=50,
        target=Target(1 / 10, 10, p99=1 / 2),
        **CONFIRMED,
        **pairs(count),
    )
    for count, title in ((1, ""), (8, ": 8 publishers, 8 consumers, 8 queues"))
)
"""Clients at the leader."""

STREAMS = (
    varied(
        "stream-amqp",
        "a stream over AMQP 0-9-1, confirms, an ack for 50",
        topology="stream",
        durable=True,
        ack_every=50,
        **CONFIRMED,
    ),
)
"""At most 1.3 times the CPU of `varied-durable`."""

LOADS = (
    VARIED + SHAPES + FEATURES + FULL_SPEED + FAN_IN + LARGE + EQUAL + CLUSTERED + MIRRORED + QUORUM
    + STREAMS
)  # fmt: skip


@dataclass(frozen=True)
class Idle:
    """Idle connections with one channel each."""

    name: str
    title: str
    connections: int


@dataclass(frozen=True)
class Declare:
    """Transient queues declared one after the other on one channel."""

    name: str
    title: str
    queues: int


IDLE = Idle("idle", "an idle connection", 1000)
DECLARE = Declare("declare", "queues declared", 10000)
QUICK_DECLARE = Declare("declare", "queues declared", 1000)


@dataclass(frozen=True)
class Backlog:
    """Persistent messages of 1 KB, published to one durable queue and then consumed."""

    name: str
    title: str
    messages: int
    is_lazy: bool = False


BACKLOGS = (
    Backlog("backlog", "a backlog", 1_000_000),
    Backlog("backlog-lazy", "a backlog in a lazy queue", 1_000_000, is_lazy=True),
)
QUICK_SHARE = 10
"""Divisor of the size of backlogs in a quick run."""
BACKLOG_MEMORY = "400MB"
RESTART_QUEUES = 5000
BUSY_NEIGHBOUR = ("busy-neighbour", "a busy connection beside a quiet one")
BACKLOG_IDS = ("backlog-ids", "a backlog of a million messages with ids of their own")
ONE_CONFIRM = ("one-confirm", "one confirm at a time")
RESTART = ("restart", "restarts after a kill")
CLUSTER_FORMS = ("cluster-forms", "three new nodes form a cluster")
CLUSTER_DECLARES = ("cluster-declares", "queues declared by clients of three nodes")
CLUSTER_REJOINS = ("cluster-rejoins", "a node starts again, and fetches what was declared")
MIRRORED_SYNC = ("mirrored-sync", "a mirror is brought what was there before it")
SYNC_MESSAGES = 200_000


def rows() -> list[tuple[str, str]]:
    """Return the names and titles of all rows."""
    titled: tuple[Load | Idle | Declare | Backlog, ...] = (*LOADS, IDLE, DECLARE, *BACKLOGS)
    named = [(row.name, row.title) for row in titled]
    alone = (BUSY_NEIGHBOUR, BACKLOG_IDS, ONE_CONFIRM, RESTART)
    clustered = (CLUSTER_FORMS, CLUSTER_DECLARES, CLUSTER_REJOINS, MIRRORED_SYNC)
    return [*named, *alone, *clustered]
