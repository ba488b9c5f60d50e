"""The options of the command line: PerfTest's names, short forms and meanings, as a table.

PerfTest's short options of two letters have one dash, as there. The options of PerfTest's Java,
which steer nothing here, are in `WITHOUT_EFFECT`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from mgmt.perf.options import BODY_BYTES_MIN, FRAME_BYTES_MAX
from mgmt.perf.schedule import NO_LIMIT
from mgmt.perf.values import (
    capacity,
    count,
    duration,
    flags,
    frame_max,
    names,
    number,
    pairs,
    part,
    plain,
    positive,
    positive_seconds,
    publishing_interval,
    rate,
    seconds,
    truth,
    uri,
    uris,
    window,
)  # fmt: skip


class Option(NamedTuple):
    """An option's names, and what argparse is to be told of it."""

    names: list[str]
    settings: dict[str, Any]


def value(
    names: str, kind: Callable[[str], Any], default: Any, metavar: str | None, text: str,
    **more: Any,
) -> Option:  # fmt: skip
    """An option with a value. kind: makes it of the text."""
    settings = {"type": kind, "default": default, "metavar": metavar, "help": text, **more}
    return Option(names.split(), settings)


def flag(names: str, text: str) -> Option:
    """An option without a value."""
    return Option(names.split(), {"action": "store_true", "help": text})


def several(names: str, kind: Callable[[str], Any], metavar: str, text: str) -> Option:
    """An option that may be given several times."""
    return value(names, kind, [], metavar, text, action="append")


def parts(names: str, metavar: str, text: str) -> Option:
    """An option with one part or more of a schedule."""
    return value(names, part, [], metavar, text, action="extend", nargs="+")


CLIENTS = (
    value("-h --uri", uri, "amqp://guest:guest@127.0.0.1:5672/", "URI",
        "amqp://user:password@host:port/vhost, or amqps:// for TLS"),
    value("-H --uris", uris, [], "URIS", "several, with commas; taken in turns"),
    value("-x --producers", count, 1, "PRODUCERS", "producers, a connection each"),
    value("-y --consumers", count, 1, "CONSUMERS", "consumers, a connection each"),
    value("-X --producer-channel-count", positive, 1, "COUNT",
        "channels of each producer", dest="producer_channels"),
    value("-Y --consumer-channel-count", positive, 1, "COUNT",
        "channels of each consumer", dest="consumer_channels"),
    value("-M --framemax", frame_max, FRAME_BYTES_MAX, "BYTES", "a frame's bytes at most"),
    value("-b --heartbeat", count, 0, "SECONDS", "heartbeats; none by default"),
    flag("-se --sasl-external", "log in with the certificate"),
    value("-sni --server-name-indication", str, "", "NAME",
        "the server's name in TLS, if it is not the host's", dest="server_name"),
    value("-sst --servers-startup-timeout", seconds, 0.0, "SECONDS",
        "how long to try to connect, if the broker is only starting"),
    value("--processes", count, 0, "COUNT",
        "worker processes; by default as there are clients and processors"),
)  # fmt: skip

PUBLISHING = (
    value("-r --rate", rate, NO_LIMIT, "RATE", "messages a second of each producer"),
    parts("-vr --variable-rate", "RATE:SECONDS",
        "a rate for some time, then the next, over and over"),
    value("-P --publishing-interval", publishing_interval, 0.0, "SECONDS",
        "seconds between two messages, instead of a rate"),
    value("-prsd --producer-random-start-delay", seconds, 0.0, "SECONDS",
        "each producer waits for up to that long before it begins"),
    value("-c --confirm", window, 0, "COUNT", "confirms; so many may be open"),
    value("-ct --confirm-timeout", number, 30.0, "SECONDS",
        "how long a confirm may take; 0 or less: no limit"),
    value("-m --ptxsize", count, 0, "COUNT", "messages of a producer's transaction"),
    value("-C --pmessages", count, 0, "COUNT", "messages each producer publishes in all"),
    value("-k --routing-key", str, None, "KEY",
        "routing key; by default a random one, or the queue's name"),
    flag("-K --random-routing-key", "another key for each message"),
    value("-rkcs --routing-key-cache-size", count, 0, "COUNT",
        "how many random keys there are; 1000 by default"),
    value("-s --size", count, BODY_BYTES_MIN, "BYTES", "bytes of a body, 12 at least"),
    parts("-vs --variable-size", "SIZE:SECONDS",
        "a size for some time, then the next, over and over"),
    value("-B --body", names, [], "FILES",
        "files, with commas, whose content is published in turns"),
    value("-T --body-content-type", str, "", "TYPE", "content type of the body"),
    flag("-jb --json-body", "random JSON of --size bytes"),
    value("-bfc --body-field-count", positive, 1000, "COUNT",
        "how many names and values the JSON is made of"),
    value("-bc --body-count", positive, 100, "COUNT",
        "how many bodies of JSON there are; they are published in turns"),
    several("-f --flag", flags, "FLAGS",
        "persistent (queues are durable then), mandatory, or both with a comma"),
    several("-mp --message-properties", pairs, "PAIRS",
        "properties, such as priority=5,appId=x; other names are headers"),
)  # fmt: skip

CONSUMING = (
    value("-R --consumer-rate", rate, NO_LIMIT, "RATE", "messages a second of each consumer"),
    flag("-a --autoack", "consume without acks"),
    value("-A --multi-ack-every", count, 0, "COUNT", "ack that many at once"),
    flag("-na --nack", "nack instead of ack"),
    value("-re --requeue", truth, True, "TRUTH",
        "what is nacked goes back to the queue; true by default"),
    value("-q --qos", count, 0, "QOS", "prefetch of each consumer"),
    value("-Q --global-qos", count, 0, "GLOBAL_QOS", "prefetch of each channel"),
    value("-n --ctxsize", count, 0, "COUNT", "messages of a consumer's transaction"),
    value("-D --cmessages", count, 0, "COUNT", "messages each consumer takes in all"),
    value("-L --consumer-latency", count, 0, "MICROSECONDS", "how long a message takes"),
    parts("-vl --variable-latency", "MICROSECONDS:SECONDS",
        "that for some time, then the next, over and over"),
    flag("-po --polling", "consume with basic.get"),
    value("-pi --polling-interval", seconds, 0.0, "MILLISECONDS",
        "how long to wait between two basic.get"),
    flag("-S --slow-start", "a second between the consumers' starts"),
    value("-csd --consumer-start-delay", seconds, 0.0, "SECONDS", "when the consumers start"),
    several("-ca --consumer-args", pairs, "PAIRS", "arguments of consumers, such as x-priority=10"),
    value("-sco --stream-consumer-offset", plain, None, "OFFSET",
        "where a stream's consumers begin: first, last, next, ..."),
)  # fmt: skip

TOPOLOGY = (
    value("-e --exchange", str, None, "EXCHANGE",
        "exchange; by default, one that is called as its type is", nargs="?", const=""),
    value("-t --type", str, "direct", "TYPE", "the exchange's type"),
    value("-u --queue", names, [], "QUEUE",
        "queue, or several with commas; by default each consumer has a queue of its own"),
    value("-qf --queue-file", str, "", "FILE",
        "names of queues, one on each line, which clients take in turns"),
    value("-qp --queue-pattern", str, "", "PATTERN",
        "such as perf-%%d: names of queues, which clients take in turns"),
    value("-qpf --queue-pattern-from", count, None, "NUMBER", "the first one's number"),
    value("-qpt --queue-pattern-to", count, None, "NUMBER", "the last one's number"),
    several("-qa --queue-args", pairs, "PAIRS", "arguments of queues, such as x-max-length=10"),
    value("-ad --auto-delete", truth, True, "TRUTH",
        "are queues deleted after their last consumer; true by default"),
    flag("-E --exclusive", "each consumer's queue is exclusive"),
    flag("-p --predeclared", "take what exists as it is"),
    flag("-sb --skip-binding-queues", "do not bind queues"),
    flag("-qq --quorum-queue", "quorum queues, and all that they need"),
    flag("-sq --stream-queue", "streams, and all that they need"),
    value("-mlb --max-length-bytes", capacity, None, "SIZE",
        "a queue's bytes at most, such as 20gb"),
    value("-smssb --stream-max-segment-size-bytes", capacity, None, "SIZE", "a stream's segments"),
    value("-ma --max-age", duration, None, "DURATION",
        "how long a stream keeps messages, such as PT10M"),
    value("-ll --leader-locator", str, None, None,
        "where leaders are", choices=("client-local", "balanced")),
)  # fmt: skip

RUN = (
    value("-z --time", seconds, 0.0, "SECONDS", "how long to run; until Ctrl-C by default"),
    value("-ew --exit-when", str, "", None,
        "stop when consumers have had nothing for a second, or queues are empty then",
        choices=("idle", "empty")),
    value("-st --shutdown-timeout", seconds, 5.0, "SECONDS",
        "how long to wait at the end for messages on their way"),
    value("-d --id", str, "", "ID", "what the lines begin with"),
    value("-i --interval", positive_seconds, 1.0, "SECONDS", "seconds between two lines"),
    value("-mf --metrics-format", str, "default", None,
        "what the lines look like", choices=("default", "compact")),
    flag("-ms --use-millis",
        "latencies in milliseconds of the wall clock, for clients on several machines"),
    value("-o --output-file", str, "", "FILE", "write comma-separated values there, too"),
    flag("--json", "print one JSON object at the end, and nothing else"),
    flag("--quiet", "print the summary only"),
)  # fmt: skip

GROUPS = {
    "broker and clients": CLIENTS, "publishing": PUBLISHING, "consuming": CONSUMING,
    "exchange and queues": TOPOLOGY, "the run and what it shows": RUN,
}  # fmt: skip

WITHOUT_EFFECT = (
    "-hst --heartbeat-sender-threads", "-pst --producer-scheduler-threads", "-niot --nio-threads",
    "-niotp --nio-thread-pool", "-ctp --consumers-thread-pools", "-ntyt --netty-threads",
    "-cri --connection-recovery-interval", "-cal --connection-allocation",
)  # fmt: skip
FLAGS_WITHOUT_EFFECT = (
    "-dcr --disable-connection-recovery", "-udsc --use-default-ssl-context", "-nty --netty",
    "-ntyep --netty-epoll", "-ntykq --netty-kqueue",
)  # fmt: skip
