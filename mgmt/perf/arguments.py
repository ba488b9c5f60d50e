"""The command line: PerfTest's names and short forms, read into `Options`.

PerfTest's short options of two letters have one dash, as there. Every option can be given as an
environment variable, too, once RABBITMQ_PERF_TEST_ENV_PREFIX names what they begin with. Options
that steer what only PerfTest's Java has are taken, and said to have no effect. docs/perf.md says
what is left out and what differs.
"""

import argparse
import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn
from uuid import uuid4

from broker.net.handshake import version
from mgmt.perf import values
from mgmt.perf.messages import PropertyError, message_properties
from mgmt.perf.options import BODY_BYTES_MIN, FRAME_BYTES_MAX, Options, OptionsError
from mgmt.perf.schedule import NO_LIMIT

ENVIRONMENT_PREFIX = "RABBITMQ_PERF_TEST_ENV_PREFIX"

WITHOUT_EFFECT = {
    "-hst": "--heartbeat-sender-threads", "-pst": "--producer-scheduler-threads",
    "-niot": "--nio-threads", "-niotp": "--nio-thread-pool", "-ctp": "--consumers-thread-pools",
    "-cri": "--connection-recovery-interval", "-ntyt": "--netty-threads",
    "-cal": "--connection-allocation",
}  # fmt: skip
FLAGS_WITHOUT_EFFECT = {
    "-dcr": "--disable-connection-recovery", "-udsc": "--use-default-ssl-context",
    "-nty": "--netty", "-ntyep": "--netty-epoll", "-ntykq": "--netty-kqueue",
}  # fmt: skip


def read_options(arguments: list[str], environment: Mapping[str, str] = os.environ) -> Options:
    """The options. Exits as argparse does: with 2 for what is wrong, with 0 after --help."""
    reader = parser()
    given = vars(reader.parse_args([*from_environment(reader, environment), *arguments]))
    try:
        return Options(**_settled(given)).check()
    except (OptionsError, PropertyError) as error:
        reader.error(str(error))
    except OSError as error:
        reader.error(f"cannot read {error.filename}: {error.strerror}")


def from_environment(reader: argparse.ArgumentParser, environment: Mapping[str, str]) -> list[str]:
    """The options that are environment variables, as arguments."""
    prefix = environment.get(ENVIRONMENT_PREFIX, "").strip()
    if not prefix:
        return []
    found = []
    for action in reader._actions:
        name = action.option_strings[-1]
        variable = name.removeprefix("--").replace("-", "_").upper()
        value = environment.get(f"{prefix.removesuffix('_')}_{variable}")
        if value is None:
            continue
        if action.nargs != 0:
            found.append(f"{name}={value}")
        elif value.lower() == "true":
            found.append(name)
    return found


def _settled(given: dict[str, Any]) -> dict[str, Any]:
    """What the options come to: those that stand for others are replaced."""
    uri, interval = given.pop("uri"), given.pop("publishing_interval")
    given["uris"] = given["uris"] or [uri]
    given["id"] = given["id"] or f"perf-{os.getpid()}"
    given["flag"] = [name for names in given["flag"] for name in names]
    if interval:
        given["rate"] = 1 / interval
    for name in given["body"]:
        Path(name).open("rb").close()
    _settle_exchange(given)
    _settle_queues(given)
    content_type = given.pop("body_content_type") or ("application/json" * given["json_body"])
    properties = _merged(given["message_properties"])
    if content_type:
        properties["content_type"] = content_type
    message_properties(properties)
    return {**given, "message_properties": properties}


def _settle_exchange(given: dict[str, Any]) -> None:
    """Without a name, the exchange is called as its type is; amq.default is the nameless one."""
    given["predeclared_exchange"] = given["predeclared"] and given["exchange"] is not None
    if given["exchange"] is None:
        given["exchange"] = given["type"]
    elif given["exchange"] == "amq.default":
        given["exchange"] = ""


def _settle_queues(given: dict[str, Any]) -> None:
    """An argument without a value, and a limit of 0, take back what a queue's type brings."""
    given["queues"] = given.pop("queue")
    file = given.pop("queue_file")
    if file:
        lines = Path(file).read_text().splitlines()
        given["queues"] = [line.strip() for line in lines if line.strip()]
    given["is_sequence"] = bool(file)
    takes_turns = given["is_sequence"] or given["queue_pattern"]
    if given["routing_key"] is None and given["exchange"] and not takes_turns:
        given["routing_key"] = str(uuid4())
    arguments = _queue_type(given) | _merged(given["queue_args"])
    for option, name in _QUEUE_ARGUMENTS.items():
        value = given.pop(option)
        if value is not None:
            arguments[name] = value or ""
    offset = given.pop("stream_consumer_offset")
    consumer_args = _merged(given["consumer_args"])
    given["consumer_args"] = consumer_args | ({"x-stream-offset": offset} if offset else {})
    given["queue_args"] = {name: value for name, value in arguments.items() if value != ""}


_QUEUE_ARGUMENTS = {
    "max_length_bytes": "x-max-length-bytes",
    "stream_max_segment_size_bytes": "x-stream-max-segment-size-bytes",
    "leader_locator": "x-queue-leader-locator",
    "max_age": "x-max-age",
}


def _queue_type(given: dict[str, Any]) -> dict[str, Any]:
    """The arguments of quorum queues and streams, and what else these need."""
    is_quorum, is_stream = given.pop("quorum_queue"), given.pop("stream_queue")
    if is_quorum and is_stream:
        raise OptionsError("give either --quorum-queue or --stream-queue")
    if not (is_quorum or is_stream):
        return {}
    given["flag"].append("persistent")
    given["auto_delete"] = False
    if is_quorum:
        return {"x-queue-type": "quorum"}
    given["qos"] = given["qos"] or STREAM_QOS
    return {
        "x-queue-type": "stream", "x-max-length-bytes": STREAM_BYTES_MAX,
        "x-stream-max-segment-size-bytes": STREAM_SEGMENT_BYTES_MAX,
    }  # fmt: skip


STREAM_QOS, STREAM_BYTES_MAX, STREAM_SEGMENT_BYTES_MAX = 200, 20 * 1000**3, 500 * 1000**2


def _merged(given: list[dict[str, Any]]) -> dict[str, Any]:
    return {name: value for pairs in given for name, value in pairs.items()}


class _Parser(argparse.ArgumentParser):
    """Says what is wrong in one line."""

    def error(self, message: str) -> NoReturn:
        """Leave, with 2."""
        self.exit(2, f"leveret perf: {message}; see leveret perf --help\n")


class _NoEffect(argparse.Action):
    """Takes an option of PerfTest's Java, and says that it does nothing here."""

    def __call__(
        self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, values: Any,
        option_string: str | None = None,
    ) -> None:  # fmt: skip
        sys.stderr.write(f"leveret perf: {option_string} has no effect here\n")


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = _Parser(
        prog="leveret perf",
        description="Load an AMQP 0-9-1 broker and measure it, with PerfTest's options.",
        allow_abbrev=False, add_help=False,
    )  # fmt: skip
    made.add_argument("-?", "--help", action="help", help="show this and leave")
    made.add_argument("-v", "--version", action="version", version=f"Leveret {version()}")
    _add_clients(made.add_argument_group("broker and clients").add_argument)
    publishing = made.add_argument_group("publishing")
    _add_publishing(publishing.add_argument)
    _add_messages(publishing.add_argument)
    _add_consuming(made.add_argument_group("consuming").add_argument)
    _add_topology(made.add_argument_group("exchange and queues").add_argument)
    _add_run(made.add_argument_group("the run and what it shows").add_argument)
    for short, long in WITHOUT_EFFECT.items():
        _add_without_effect(made.add_argument, short, long)
    for short, long in FLAGS_WITHOUT_EFFECT.items():
        _add_without_effect(made.add_argument, short, long, nargs=0)
    return made


Add = Callable[..., Any]


def _add_without_effect(add: Add, short: str, long: str, **more: Any) -> None:
    add(short, long, action=_NoEffect, dest=argparse.SUPPRESS, help=argparse.SUPPRESS, **more)


def _add_clients(add: Add) -> None:
    add(
        "-h",
        "--uri",
        type=values.uri,
        default="amqp://guest:guest@127.0.0.1:5672/",
        help="amqp://user:password@host:port/vhost, or amqps:// for TLS",
    )
    add("-H", "--uris", type=values.uris, default=[], help="several, with commas; taken in turns")
    add("-x", "--producers", type=values.count, default=1, help="producers, a connection each")
    add("-y", "--consumers", type=values.count, default=1, help="consumers, a connection each")
    add(
        "-X",
        "--producer-channel-count",
        dest="producer_channels",
        metavar="COUNT",
        type=values.positive,
        default=1,
        help="channels of each producer",
    )
    add(
        "-Y",
        "--consumer-channel-count",
        dest="consumer_channels",
        metavar="COUNT",
        type=values.positive,
        default=1,
        help="channels of each consumer",
    )
    add(
        "-M",
        "--framemax",
        type=values.frame_max,
        default=FRAME_BYTES_MAX,
        metavar="BYTES",
        help="a frame's bytes at most",
    )
    add(
        "-b",
        "--heartbeat",
        type=values.count,
        default=0,
        metavar="SECONDS",
        help="heartbeats; none by default",
    )
    add("-se", "--sasl-external", action="store_true", help="log in with the certificate")
    add(
        "-sni",
        "--server-name-indication",
        dest="server_name",
        default="",
        metavar="NAME",
        help="the server's name in TLS, if it is not the host's",
    )
    add(
        "-sst",
        "--servers-startup-timeout",
        type=values.seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long to try to connect, if the broker is only starting",
    )
    add("--processes", type=values.count, default=0, metavar="COUNT",
        help="worker processes; by default as there are clients and processors")  # fmt: skip


def _add_publishing(add: Add) -> None:
    add(
        "-r",
        "--rate",
        type=values.rate,
        default=NO_LIMIT,
        help="messages a second of each producer",
    )
    add(
        "-vr",
        "--variable-rate",
        type=values.part,
        nargs="+",
        action="extend",
        default=[],
        metavar="RATE:SECONDS",
        help="a rate for some time, then the next, over and over",
    )
    add(
        "-P",
        "--publishing-interval",
        type=values.publishing_interval,
        default=0.0,
        metavar="SECONDS",
        help="seconds between two messages, instead of a rate",
    )
    add(
        "-prsd",
        "--producer-random-start-delay",
        type=values.seconds,
        default=0.0,
        metavar="SECONDS",
        help="each producer waits for up to that long before it begins",
    )
    add(
        "-c",
        "--confirm",
        type=values.window,
        default=0,
        metavar="COUNT",
        help="confirms; so many may be open",
    )
    add(
        "-ct",
        "--confirm-timeout",
        type=values.number,
        default=30.0,
        metavar="SECONDS",
        help="how long a confirm may take; 0 or less: no limit",
    )
    add(
        "-m",
        "--ptxsize",
        type=values.count,
        default=0,
        metavar="COUNT",
        help="messages of a producer's transaction",
    )
    add(
        "-C",
        "--pmessages",
        type=values.count,
        default=0,
        metavar="COUNT",
        help="messages each producer publishes in all",
    )
    add(
        "-k",
        "--routing-key",
        default=None,
        metavar="KEY",
        help="routing key; by default a random one, or the queue's name",
    )
    add("-K", "--random-routing-key", action="store_true", help="another key for each message")
    add("-rkcs", "--routing-key-cache-size", type=values.count, default=0, metavar="COUNT",
        help="how many random keys there are; 1000 by default")  # fmt: skip


def _add_messages(add: Add) -> None:
    add(
        "-s",
        "--size",
        type=values.count,
        default=BODY_BYTES_MIN,
        metavar="BYTES",
        help=f"bytes of a body; at least {BODY_BYTES_MIN}",
    )
    add(
        "-vs",
        "--variable-size",
        type=values.part,
        nargs="+",
        action="extend",
        default=[],
        metavar="SIZE:SECONDS",
        help="a size for some time, then the next, over and over",
    )
    add(
        "-B",
        "--body",
        type=values.names,
        default=[],
        metavar="FILES",
        help="files, with commas, whose content is published in turns",
    )
    add("-T", "--body-content-type", default="", metavar="TYPE", help="content type of the body")
    add("-jb", "--json-body", action="store_true", help="random JSON of --size bytes")
    add(
        "-bfc",
        "--body-field-count",
        type=values.positive,
        default=1000,
        metavar="COUNT",
        help="how many names and values the JSON is made of",
    )
    add(
        "-bc",
        "--body-count",
        type=values.positive,
        default=100,
        metavar="COUNT",
        help="how many bodies of JSON there are; they are published in turns",
    )
    add(
        "-f",
        "--flag",
        action="append",
        type=values.flags,
        default=[],
        metavar="FLAGS",
        help="persistent (queues are durable then), mandatory, or both with a comma",
    )
    add("-mp", "--message-properties", type=values.pairs, action="append", default=[],
        metavar="PAIRS",
        help="properties, such as priority=5,appId=x; other names are headers")  # fmt: skip


def _add_consuming(add: Add) -> None:
    add(
        "-R",
        "--consumer-rate",
        type=values.rate,
        default=NO_LIMIT,
        metavar="RATE",
        help="messages a second of each consumer",
    )
    add("-a", "--autoack", action="store_true", help="consume without acks")
    add(
        "-A",
        "--multi-ack-every",
        type=values.count,
        default=0,
        metavar="COUNT",
        help="ack that many at once",
    )
    add("-na", "--nack", action="store_true", help="nack instead of ack")
    add(
        "-re",
        "--requeue",
        type=values.truth,
        default=True,
        metavar="TRUTH",
        help="what is nacked goes back to the queue; true by default",
    )
    add("-q", "--qos", type=values.count, default=0, help="prefetch of each consumer")
    add("-Q", "--global-qos", type=values.count, default=0, help="prefetch of each channel")
    add(
        "-n",
        "--ctxsize",
        type=values.count,
        default=0,
        metavar="COUNT",
        help="messages of a consumer's transaction",
    )
    add(
        "-D",
        "--cmessages",
        type=values.count,
        default=0,
        metavar="COUNT",
        help="messages each consumer takes in all",
    )
    add(
        "-L",
        "--consumer-latency",
        type=values.count,
        default=0,
        metavar="MICROSECONDS",
        help="how long a message takes",
    )
    add(
        "-vl",
        "--variable-latency",
        type=values.part,
        nargs="+",
        action="extend",
        default=[],
        metavar="MICROSECONDS:SECONDS",
        help="that for some time, then the next, over and over",
    )
    add("-po", "--polling", action="store_true", help="consume with basic.get")
    add(
        "-pi",
        "--polling-interval",
        type=values.seconds,
        default=0.0,
        metavar="MILLISECONDS",
        help="how long to wait between two basic.get",
    )
    add("-S", "--slow-start", action="store_true", help="a second between the consumers' starts")
    add(
        "-csd",
        "--consumer-start-delay",
        type=values.seconds,
        default=0.0,
        metavar="SECONDS",
        help="when the consumers start",
    )
    add(
        "-ca",
        "--consumer-args",
        type=values.pairs,
        action="append",
        default=[],
        metavar="PAIRS",
        help="arguments of consumers, such as x-priority=10",
    )
    add("-sco", "--stream-consumer-offset", default="", metavar="OFFSET",
        help="where a stream's consumers begin: first, last, next, ...")  # fmt: skip


def _add_topology(add: Add) -> None:
    add(
        "-e",
        "--exchange",
        nargs="?",
        const="",
        default=None,
        help="exchange; by default, one that is called as its type is",
    )
    add("-t", "--type", default="direct", help="the exchange's type")
    add(
        "-u",
        "--queue",
        type=values.names,
        default=[],
        help="queue, or several with commas; by default each consumer has a queue of its own",
    )
    add(
        "-qf",
        "--queue-file",
        default="",
        metavar="FILE",
        help="names of queues, one on each line, which clients take in turns",
    )
    add(
        "-qp",
        "--queue-pattern",
        default="",
        metavar="PATTERN",
        help="such as perf-%%d: names of queues, which clients take in turns",
    )
    add(
        "-qpf",
        "--queue-pattern-from",
        type=values.count,
        default=None,
        metavar="NUMBER",
        help="the first one's number",
    )
    add(
        "-qpt",
        "--queue-pattern-to",
        type=values.count,
        default=None,
        metavar="NUMBER",
        help="the last one's number",
    )
    add(
        "-qa",
        "--queue-args",
        type=values.pairs,
        action="append",
        default=[],
        metavar="PAIRS",
        help="arguments of queues, such as x-max-length=10",
    )
    add(
        "-ad",
        "--auto-delete",
        type=values.truth,
        default=True,
        metavar="TRUTH",
        help="are queues deleted after their last consumer; true by default",
    )
    add("-E", "--exclusive", action="store_true", help="each consumer's queue is exclusive")
    add("-p", "--predeclared", action="store_true", help="take what exists as it is")
    add("-sb", "--skip-binding-queues", action="store_true", help="do not bind queues")
    add("-qq", "--quorum-queue", action="store_true", help="quorum queues, and all that they need")
    add("-sq", "--stream-queue", action="store_true", help="streams, and all that they need")
    add(
        "-mlb",
        "--max-length-bytes",
        type=values.capacity,
        default=None,
        metavar="SIZE",
        help="a queue's bytes at most, such as 20gb",
    )
    add(
        "-smssb",
        "--stream-max-segment-size-bytes",
        type=values.capacity,
        default=None,
        metavar="SIZE",
        help="a stream's segments",
    )
    add(
        "-ma",
        "--max-age",
        type=values.duration,
        default=None,
        metavar="DURATION",
        help="how long a stream keeps messages, such as PT10M",
    )
    add("-ll", "--leader-locator", choices=("client-local", "balanced"), default=None,
        help="where leaders are")  # fmt: skip


def _add_run(add: Add) -> None:
    add(
        "-z",
        "--time",
        type=values.seconds,
        default=0.0,
        metavar="SECONDS",
        help="how long to run; until Ctrl-C by default",
    )
    add(
        "-ew",
        "--exit-when",
        choices=("idle", "empty"),
        default="",
        help="stop when consumers have had nothing for a second, or queues are empty then",
    )
    add(
        "-st",
        "--shutdown-timeout",
        type=values.seconds,
        default=5.0,
        metavar="SECONDS",
        help="how long to wait at the end for messages on their way",
    )
    add("-d", "--id", default="", help="what the lines begin with")
    add(
        "-i",
        "--interval",
        type=values.positive_seconds,
        default=1.0,
        metavar="SECONDS",
        help="seconds between two lines",
    )
    add(
        "-mf",
        "--metrics-format",
        choices=("default", "compact"),
        default="default",
        help="what the lines look like",
    )
    add(
        "-ms",
        "--use-millis",
        action="store_true",
        help="latencies in milliseconds of the wall clock, for clients on several machines",
    )
    add(
        "-o",
        "--output-file",
        default="",
        metavar="FILE",
        help="write comma-separated values there, too",
    )
    add("--json", action="store_true", help="print one JSON object at the end, and nothing else")
    add("--quiet", action="store_true", help="print the summary only")  # fmt: skip
