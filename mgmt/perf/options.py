"""The options of `leveret perf`: PerfTest's names, and what they come to. Pure.

PerfTest's two-letter short options have one dash, as there; docs/perf.md lists what is left out.
"""

import argparse
import os
from dataclasses import asdict, dataclass, field
from typing import Any

from mgmt.perf import __doc__ as description


@dataclass
class Options:
    """What is to be done. Rates: messages a second of each producer or consumer; 0: no limit."""

    uri: str = "amqp://guest:guest@127.0.0.1:5672/"
    producers: int = 1
    consumers: int = 1
    producer_channels: int = 1
    consumer_channels: int = 1
    rate: float = 0
    consumer_rate: float = 0
    size: int = 12
    body: list[str] = field(default_factory=list)
    confirm: int = 0
    autoack: bool = False
    multi_ack_every: int = 0
    nack: bool = False
    requeue: bool = True
    qos: int = 0
    global_qos: int = 0
    flags: list[str] = field(default_factory=list)
    pmessages: int = 0
    cmessages: int = 0
    time: float = 0
    exchange: str = ""
    type: str = "direct"
    routing_key: str = ""
    random_routing_key: bool = False
    queue: str = ""
    queue_args: dict[str, Any] = field(default_factory=dict)
    auto_delete: bool = True
    predeclared: bool = False
    queue_pattern: str = ""
    queue_from: int = 0
    queue_to: int = 0
    interval: float = 1.0
    id: str = ""
    output_file: str = ""
    use_millis: bool = False
    consumer_latency: int = 0
    ptxsize: int = 0
    ctxsize: int = 0
    slow_start: bool = False
    confirm_timeout: float = 30.0
    properties: dict[str, Any] = field(default_factory=dict)
    processes: int = 0
    json: bool = False
    quiet: bool = False

    @property
    def persistent(self) -> bool:
        """Messages are persistent, and so are queues."""
        return "persistent" in self.flags

    @property
    def mandatory(self) -> bool:
        """Unroutable messages come back."""
        return "mandatory" in self.flags

    def queues(self) -> list[str]:
        """The queues that there are to be."""
        if self.queue_pattern:
            numbers = range(self.queue_from, self.queue_to + 1)
            return [self.queue_pattern % number for number in numbers]
        return [self.queue] if self.queue else []

    def process_count(self) -> int:
        """How many processes: producers and consumers apart, as there are processors for it."""
        if self.processes:
            return self.processes
        wanted = 2 if self.producers and self.consumers else 1
        return max(1, min(wanted, os.cpu_count() or 1))

    def to_json(self) -> dict[str, Any]:
        """To be sent to a worker."""
        return asdict(self)


class OptionsError(ValueError):
    """The options make no sense together."""


def parser() -> argparse.ArgumentParser:
    """Of the command line."""
    made = argparse.ArgumentParser(
        prog="leveret perf", description=description, allow_abbrev=False, add_help=False
    )
    add = made.add_argument
    add("-?", "--help", action="help", help="show this")
    add("-h", "--uri", default=Options.uri, help="the broker: amqp://user:password@host:port/vhost")
    add("-x", "--producers", type=int, default=1, help="number of producers")
    add("-y", "--consumers", type=int, default=1, help="number of consumers")
    add("-X", "--producer-channel-count", type=int, default=1, help="channels of each producer")
    add("-Y", "--consumer-channel-count", type=int, default=1, help="channels of each consumer")
    add("-r", "--rate", type=float, default=0, help="messages a second of each producer")
    add("-R", "--consumer-rate", type=float, default=0, help="messages a second of each consumer")
    add("-s", "--size", type=int, default=12, help="bytes of a message's body")
    add("-B", "--body", default="", help="files, with commas, whose content is published")
    add("-c", "--confirm", type=int, default=0, help="unconfirmed messages of each producer")
    add("-a", "--autoack", action="store_true", help="consume without acks")
    add("-A", "--multi-ack-every", type=int, default=0, help="ack that many at once")
    add("-na", "--nack", action="store_true", help="nack instead of ack")
    add("-re", "--requeue", default="true", choices=("true", "false"), help="requeue with nack")
    add("-q", "--qos", type=int, default=0, help="prefetch of each consumer")
    add("-Q", "--global-qos", type=int, default=0, help="prefetch of each channel")
    add("-f", "--flag", action="append", default=[], choices=("persistent", "mandatory"),
        help="persistent, mandatory")  # fmt: skip
    add("-C", "--pmessages", type=int, default=0, help="messages of each producer in all")
    add("-D", "--cmessages", type=int, default=0, help="messages of each consumer in all")
    add("-z", "--time", type=float, default=0, help="how many seconds to run")
    add("-e", "--exchange", default=None, help="exchange to publish to; made unless predeclared")
    add("-t", "--type", default="direct", help="its type")
    add("-k", "--routing-key", default=None, help="routing key")
    add("-K", "--random-routing-key", action="store_true", help="another key for each batch")
    add("-u", "--queue", default="", help="queue; a name of the broker's if there is none")
    add("-qa", "--queue-args", default="", help="arguments: x-max-length=10,x-queue-mode=lazy")
    add("-ad", "--auto-delete", default="true", choices=("true", "false"), help="of queues")
    add("-p", "--predeclared", action="store_true", help="declare nothing")
    add("-qp", "--queue-pattern", default="", help="names of many queues, such as perf-%%d")
    add("-qpf", "--queue-pattern-from", type=int, default=1, help="the first of them")
    add("-qpt", "--queue-pattern-to", type=int, default=1, help="the last of them")
    add("-mp", "--message-properties", default="", help="properties: priority=5,app_id=x")
    add("-i", "--interval", type=float, default=1.0, help="seconds between two lines")
    add("-d", "--id", default="", help="what the lines begin with")
    add("-o", "--output-file", default="", help="a file of comma-separated values")
    add("-ms", "--use-millis", action="store_true", help="show latencies in milliseconds")
    add("-L", "--consumer-latency", type=int, default=0, help="microseconds a message takes")
    add("-m", "--ptxsize", type=int, default=0, help="messages of a producer's transaction")
    add("-n", "--ctxsize", type=int, default=0, help="messages of a consumer's transaction")
    add("-S", "--slow-start", action="store_true", help="start producers one after the other")
    add("-ct", "--confirm-timeout", type=float, default=30.0, help="seconds to wait for confirms")
    add("--processes", type=int, default=0, help="processes that produce and consume")
    add("--json", action="store_true", help="print the summary as JSON, and nothing else")
    add("--quiet", action="store_true", help="print the summary only")
    return made


def read_options(arguments: list[str]) -> Options:
    """The options. Raises OptionsError; exits with 2 for what argparse does not take."""
    given = parser().parse_args(arguments)
    queue_pattern = given.queue_pattern
    if queue_pattern and queue_pattern.count("%") != 1:
        raise OptionsError("--queue-pattern needs one %d, for the number")
    if given.queue_pattern_to < given.queue_pattern_from:
        raise OptionsError("--queue-pattern-to must not be less than --queue-pattern-from")
    if min(given.producers, given.consumers) < 0 or not given.producers + given.consumers:
        raise OptionsError("there must be a producer or a consumer")
    if given.size < 0:
        raise OptionsError("--size must not be negative")
    if given.ptxsize and given.confirm:
        raise OptionsError("--ptxsize and --confirm exclude each other")
    made = Options(
        uri=given.uri, producers=given.producers, consumers=given.consumers,
        producer_channels=given.producer_channel_count,
        consumer_channels=given.consumer_channel_count, rate=given.rate,
        consumer_rate=given.consumer_rate, size=given.size,
        body=[name for name in given.body.split(",") if name], confirm=given.confirm,
        autoack=given.autoack, multi_ack_every=given.multi_ack_every, nack=given.nack,
        requeue=given.requeue == "true", qos=given.qos, global_qos=given.global_qos,
        flags=given.flag, pmessages=given.pmessages, cmessages=given.cmessages, time=given.time,
        type=given.type, random_routing_key=given.random_routing_key, queue=given.queue,
        queue_args=pairs(given.queue_args), auto_delete=given.auto_delete == "true",
        predeclared=given.predeclared, queue_pattern=queue_pattern,
        queue_from=given.queue_pattern_from, queue_to=given.queue_pattern_to,
        interval=given.interval, id=given.id or f"perf-{os.getpid()}",
        output_file=given.output_file, use_millis=given.use_millis,
        consumer_latency=given.consumer_latency, ptxsize=given.ptxsize, ctxsize=given.ctxsize,
        slow_start=given.slow_start, confirm_timeout=given.confirm_timeout,
        properties=pairs(given.message_properties), processes=given.processes, json=given.json,
        quiet=given.quiet,
    )  # fmt: skip
    if made.ctxsize and made.autoack:
        raise OptionsError("--ctxsize needs acks: leave --autoack out")
    if not made.queues():
        made.queue = f"{made.id}-queue"
    made.exchange = made.type if given.exchange is None and given.type != "direct" else (
        given.exchange or ""
    )  # fmt: skip
    made.routing_key = given.routing_key or ""
    return made


def pairs(text: str) -> dict[str, Any]:
    """`a=1,b=x` with numbers as numbers. Raises OptionsError."""
    found: dict[str, Any] = {}
    for part in text.split(","):
        if not part.strip():
            continue
        name, equals, value = part.partition("=")
        if not equals:
            raise OptionsError(f"'{part}' is not of the form name=value")
        value = value.strip()
        if value in ("true", "false"):
            found[name.strip()] = value == "true"
        else:
            found[name.strip()] = int(value) if value.lstrip("-").isdigit() else value
    return found
