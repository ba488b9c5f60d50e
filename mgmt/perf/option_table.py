"""The table of command line options: PerfTest's names, short forms and meanings.

As in PerfTest, short options of two letters have one dash. Options for PerfTest's Java, which have
no effect here, are in `WITHOUT_EFFECT`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

from leveret.mgmt.perf.option_types import (
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
from leveret.mgmt.perf.options import BODY_BYTES_MIN, FRAME_BYTES_MAX
from leveret.mgmt.perf.schedule import NO_LIMIT


class PerfOption(NamedTuple):
    """An option's names and its arguments for argparse."""

    names: list[str]
    settings: dict[str, Any]


def value(
    names: str, kind: Callable[[str], Any], default: Any, metavar: str | None, text: str,
    **more: Any,
) -> PerfOption:  # fmt: skip
    """Describe an option with a value. kind: converts the text."""
    settings = {"type": kind, "default": default, "metavar": metavar, "help": text, **more}
    return PerfOption(names.split(), settings)


def flag(names: str, text: str) -> PerfOption:
    """Describe an option without a value."""
    return PerfOption(names.split(), {"action": "store_true", "help": text})


def several(names: str, kind: Callable[[str], Any], metavar: str, text: str) -> PerfOption:
    """Describe an option that can be given several times."""
    return value(names, kind, [], metavar, text, action="append")


def parts(names: str, metavar: str, text: str) -> PerfOption:
    """Describe an option whose values are parts of a schedule."""
    return value(names, part, [], metavar, text, action="extend", nargs="+")


CLIENTS = (
    value("-h --uri", uri, "amqp://guest:guest@127.0.0.1:5672/", "URI",
        "amqp://user:password@host:port/vhost, or amqps:// for TLS"),
    value("-H --uris", uris, [], "URIS", "several addresses, separated by commas; used in turn"),
    value("-x --producers", count, 1, "PRODUCERS", "number of producers, one connection each"),
    value("-y --consumers", count, 1, "CONSUMERS", "number of consumers, one connection each"),
    value("-X --producer-channel-count", positive, 1, "COUNT",
        "channels of each producer", dest="producer_channels"),
    value("-Y --consumer-channel-count", positive, 1, "COUNT",
        "channels of each consumer", dest="consumer_channels"),
    value("-M --framemax", frame_max, FRAME_BYTES_MAX, "BYTES", "maximum frame size"),
    value("-b --heartbeat", count, 0, "SECONDS", "heartbeat interval; the broker's by default"),
    flag("-se --sasl-external", "log in with the certificate"),
    value("-sni --server-name-indication", str, "", "NAME",
        "TLS server name, if it is not the host", dest="server_name"),
    value("-sst --servers-startup-timeout", seconds, 0.0, "SECONDS",
        "how long to retry the first connection"),
    value("--processes", count, 0, "COUNT",
        "worker processes; by default chosen by clients and processors"),
)  # fmt: skip

PUBLISHING = (
    value("-r --rate", rate, NO_LIMIT, "RATE", "messages per second of each producer"),
    parts("-vr --variable-rate", "RATE:SECONDS",
        "rates, each for a time; repeated from the first"),
    value("-P --publishing-interval", publishing_interval, 0.0, "SECONDS",
        "seconds between two messages, instead of a rate"),
    value("-prsd --producer-random-start-delay", seconds, 0.0, "SECONDS",
        "maximum random delay before each producer starts"),
    value("-c --confirm", window, 0, "COUNT", "use confirms, with at most this number unconfirmed"),
    value("-ct --confirm-timeout", number, 30.0, "SECONDS",
        "timeout of a confirm; 0 or less: none"),
    value("-m --ptxsize", count, 0, "COUNT", "messages per transaction of a producer"),
    value("-C --pmessages", count, 0, "COUNT", "total messages of each producer"),
    value("-k --routing-key", str, None, "KEY",
        "routing key; by default a random one, or the queue's name"),
    flag("-K --random-routing-key", "a random routing key for each message"),
    value("-rkcs --routing-key-cache-size", count, 0, "COUNT",
        "number of random keys; 1000 by default"),
    value("-s --size", count, BODY_BYTES_MIN, "BYTES", "body size, at least 12"),
    parts("-vs --variable-size", "SIZE:SECONDS",
        "sizes, each for a time; repeated from the first"),
    value("-B --body", names, [], "FILES",
        "files, separated by commas, whose content is published in turn"),
    value("-T --body-content-type", str, "", "TYPE", "content type of the body"),
    flag("-jb --json-body", "random JSON of --size bytes"),
    value("-bfc --body-field-count", positive, 1000, "COUNT",
        "number of names and values in the JSON"),
    value("-bc --body-count", positive, 100, "COUNT",
        "number of JSON bodies, which are published in turn"),
    several("-f --flag", flags, "FLAGS",
        "persistent (queues are then durable), mandatory, or both, separated by a comma"),
    several("-mp --message-properties", pairs, "PAIRS",
        "properties, such as priority=5,appId=x; other names are headers"),
)  # fmt: skip

CONSUMING = (
    value("-R --consumer-rate", rate, NO_LIMIT, "RATE", "messages per second of each consumer"),
    flag("-a --autoack", "consume without acks"),
    value("-A --multi-ack-every", count, 0, "COUNT", "ack this number of messages at once"),
    flag("-na --nack", "nack instead of ack"),
    value("-re --requeue", truth, True, "TRUTH",
        "requeue nacked messages; true by default"),
    value("-q --qos", count, 0, "QOS", "prefetch of each consumer"),
    value("-Q --global-qos", count, 0, "GLOBAL_QOS", "prefetch of each channel"),
    value("-n --ctxsize", count, 0, "COUNT", "messages per transaction of a consumer"),
    value("-D --cmessages", count, 0, "COUNT", "total messages of each consumer"),
    value("-L --consumer-latency", count, 0, "MICROSECONDS", "processing time of a message"),
    parts("-vl --variable-latency", "MICROSECONDS:SECONDS",
        "processing times, each for a time; repeated from the first"),
    flag("-po --polling", "consume with basic.get"),
    value("-pi --polling-interval", seconds, 0.0, "MILLISECONDS",
        "delay between two basic.get"),
    flag("-S --slow-start", "start consumers one second apart"),
    value("-csd --consumer-start-delay", seconds, 0.0, "SECONDS", "delay before consumers start"),
    several("-ca --consumer-args", pairs, "PAIRS", "arguments of consumers, such as x-priority=10"),
    value("-sco --stream-consumer-offset", plain, None, "OFFSET",
        "where consumers of a stream start: first, last, next, ..."),
)  # fmt: skip

TOPOLOGY = (
    value("-e --exchange", str, None, "EXCHANGE",
        "exchange; by default named after its type", nargs="?", const=""),
    value("-t --type", str, "direct", "TYPE", "exchange type"),
    value("-u --queue", names, [], "QUEUE",
        "queues, separated by commas; by default each consumer has its own"),
    value("-qf --queue-file", str, "", "FILE",
        "file with queue names, one per line, assigned to clients in turn"),
    value("-qp --queue-pattern", str, "", "PATTERN",
        "pattern of queue names, such as perf-%%d, assigned to clients in turn"),
    value("-qpf --queue-pattern-from", count, None, "NUMBER", "first number of the pattern"),
    value("-qpt --queue-pattern-to", count, None, "NUMBER", "last number of the pattern"),
    several("-qa --queue-args", pairs, "PAIRS", "arguments of queues, such as x-max-length=10"),
    value("-ad --auto-delete", truth, True, "TRUTH",
        "queues are auto-delete; true by default"),
    flag("-E --exclusive", "each consumer's queue is exclusive"),
    flag("-p --predeclared", "use existing exchanges and queues"),
    flag("-sb --skip-binding-queues", "do not bind queues"),
    flag("-qq --quorum-queue", "use quorum queues, and the options that they require"),
    flag("-sq --stream-queue", "use streams, and the options that they require"),
    value("-mlb --max-length-bytes", capacity, None, "SIZE",
        "maximum size of a queue, such as 20gb"),
    value("-smssb --stream-max-segment-size-bytes", capacity, None, "SIZE", "stream segment size"),
    value("-ma --max-age", duration, None, "DURATION",
        "retention of streams, such as PT10M"),
    value("-ll --leader-locator", str, None, None,
        "placement of queue leaders", choices=("client-local", "balanced")),
)  # fmt: skip

RUN = (
    value("-z --time", seconds, 0.0, "SECONDS", "duration; until Ctrl-C by default"),
    value("-ew --exit-when", str, "", None,
        "stop when consumers are idle for a second, or when queues are then empty",
        choices=("idle", "empty")),
    value("-st --shutdown-timeout", seconds, 5.0, "SECONDS",
        "how long to wait for outstanding messages at the end"),
    value("-d --id", str, "", "ID", "prefix of the output lines"),
    value("-i --interval", positive_seconds, 1.0, "SECONDS", "seconds between two lines"),
    value("-mf --metrics-format", str, "default", None,
        "format of the output lines", choices=("default", "compact")),
    flag("-ms --use-millis",
        "latencies in milliseconds of the wall clock, for clients on several machines"),
    value("-o --output-file", str, "", "FILE", "also write CSV to a file"),
    flag("--json", "print only a JSON object at the end"),
    flag("--quiet", "print only the summary"),
)  # fmt: skip

GROUPS = {
    "broker and clients": CLIENTS, "publishing": PUBLISHING, "consuming": CONSUMING,
    "exchange and queues": TOPOLOGY, "the run and its output": RUN,
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
