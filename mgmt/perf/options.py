"""What a run is to do, as the command line said it (arguments.py), and what follows from it. Pure.

Options go to the worker processes as JSON, so all values are plain. What makes no sense together
is refused by `check`.
"""

import os
import re
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from mgmt.perf.schedule import NO_LIMIT, Part

BODY_BYTES_MIN = 12
"""PerfTest's smallest body."""
FRAME_BYTES_MAX = 131072

_NUMBER_IN_PATTERN = re.compile(r"%0?\d*d")


class OptionsError(ValueError):
    """The options make no sense; the message says which and why."""


@dataclass
class Options:
    """What is to be done.

    Rates are messages a second of each channel; `NO_LIMIT` is none, and 0 lets nothing through.
    Other numbers that are 0 are not limited, or not wanted. Sizes are bytes, and times seconds,
    but for consumers' latencies (microseconds) and the polling interval (milliseconds).
    """

    uris: list[str]
    id: str
    producers: int = 1
    consumers: int = 1
    producer_channels: int = 1
    consumer_channels: int = 1
    rate: float = NO_LIMIT
    consumer_rate: float = NO_LIMIT
    variable_rate: list[Part] = field(default_factory=list)
    size: int = BODY_BYTES_MIN
    variable_size: list[Part] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    json_body: bool = False
    body_field_count: int = 1000
    body_count: int = 100
    confirm: int = 0
    confirm_timeout: float = 30.0
    autoack: bool = False
    multi_ack_every: int = 0
    nack: bool = False
    requeue: bool = True
    qos: int = 0
    global_qos: int = 0
    flag: list[str] = field(default_factory=list)
    pmessages: int = 0
    cmessages: int = 0
    time: float = 0.0
    exit_when: str = ""
    exchange: str = "direct"
    type: str = "direct"
    routing_key: str | None = None
    random_routing_key: bool = False
    routing_key_cache_size: int = 0
    skip_binding_queues: bool = False
    queues: list[str] = field(default_factory=list)
    is_sequence: bool = False
    queue_args: dict[str, Any] = field(default_factory=dict)
    consumer_args: dict[str, Any] = field(default_factory=dict)
    auto_delete: bool = True
    exclusive: bool = False
    predeclared: bool = False
    predeclared_exchange: bool = False
    queue_pattern: str = ""
    queue_pattern_from: int | None = None
    queue_pattern_to: int | None = None
    interval: float = 1.0
    output_file: str = ""
    use_millis: bool = False
    consumer_latency: int = 0
    variable_latency: list[Part] = field(default_factory=list)
    ptxsize: int = 0
    ctxsize: int = 0
    polling: bool = False
    polling_interval: float = 0.0
    slow_start: bool = False
    consumer_start_delay: float = 0.0
    producer_random_start_delay: float = 0.0
    shutdown_timeout: float = 5.0
    servers_startup_timeout: float = 0.0
    framemax: int = FRAME_BYTES_MAX
    heartbeat: int = 0
    sasl_external: bool = False
    server_name: str = ""
    message_properties: dict[str, Any] = field(default_factory=dict)
    processes: int = 0
    metrics_format: str = "default"
    json: bool = False
    quiet: bool = False

    @property
    def is_persistent(self) -> bool:
        """Messages are persistent, and queues durable."""
        return "persistent" in self.flag

    @property
    def is_mandatory(self) -> bool:
        """Unroutable messages come back."""
        return "mandatory" in self.flag

    @property
    def ends_by_itself(self) -> bool:
        """Somebody has a number of messages to go, or ends when there are no more."""
        return bool(self.pmessages or self.cmessages or self.exit_when)

    def queue_names(self) -> list[str]:
        """The queues that have names: those of the pattern, or those that were given."""
        if not self.queue_pattern:
            return self.queues
        first, last = self.queue_pattern_from or 0, self.queue_pattern_to or 0
        return [self.queue_pattern % number for number in range(first, last + 1)]

    @property
    def takes_turns(self) -> bool:
        """Clients take the queues in turns, one each; otherwise a consumer has all of them."""
        return self.is_sequence or bool(self.queue_pattern)

    def process_count(self, processors: int) -> int:
        """How many worker processes: producers and consumers apart, and half of the processors.

        The other half is the broker's; it mostly runs on the same machine.
        """
        clients = self.producers + self.consumers
        if self.processes:
            return min(self.processes, clients)
        apart = 2 if self.producers and self.consumers else 1
        return max(1, min(clients, max(apart, processors // 2), processors))

    def check(self) -> Self:
        """Raise OptionsError for what makes no sense together; the same options otherwise."""
        for is_wrong, problem in self._problems():
            if is_wrong:
                raise OptionsError(problem)
        return self

    def _problems(self) -> list[tuple[bool, str]]:
        pattern = (self.queue_pattern_from, self.queue_pattern_to)
        has_some = bool(self.queue_pattern) or pattern != (None, None)
        has_all = bool(self.queue_pattern) and None not in pattern
        is_bad = has_all and not _is_pattern(self.queue_pattern)
        prefetch = min(self.qos or self.global_qos, self.global_qos or self.qos)
        has_queues = bool(self.queues or self.queue_pattern)
        return [
            (not self.producers + self.consumers, "give at least one producer or one consumer"),
            (has_some and not has_all,
             "--queue-pattern, --queue-pattern-from and --queue-pattern-to go together: give all"),
            (is_bad, "--queue-pattern needs one %d for the number, as in 'perf-%d'"),
            (has_all and (self.queue_pattern_from or 0) > (self.queue_pattern_to or 0),
             "--queue-pattern-to must not be less than --queue-pattern-from"),
            (has_some and bool(self.queues), "give either --queue or --queue-pattern"),
            (bool(self.producers) and not (self.exchange or has_queues or self.routing_key),
             "the default exchange takes queues' names: give --queue or --routing-key"),
            (self.exclusive and has_queues and self.consumers > 1,
             "an exclusive queue has one connection: leave --queue out, and each consumer has its"
             " own"),
            (self.exclusive and self.predeclared, "an exclusive queue cannot be --predeclared"),
            (self.predeclared and bool(self.consumers) and not has_queues,
             "--predeclared needs the names of the queues: give --queue or --queue-pattern"),
            (bool(self.confirm and self.ptxsize),
             "a channel either confirms or has transactions: give --confirm or --ptxsize"),
            (self.autoack and self.nack, "--autoack leaves nothing to --nack"),
            (self.autoack and bool(self.ctxsize), "--autoack leaves nothing to --ctxsize"),
            (bool(self.body and self.variable_size), "a --body from files has its own size"),
            (self.json_body and bool(self.body or self.variable_size),
             "--json-body goes neither with --body nor with --variable-size"),
            (bool(self.exit_when) and not self.consumers, "--exit-when needs consumers"),
            (bool(prefetch) and self.multi_ack_every > prefetch,
             "--multi-ack-every must not be more than --qos, or the acks would never be sent"),
            (bool(prefetch) and self.ctxsize > prefetch,
             "--ctxsize must not be more than --qos, or no transaction would ever be full"),
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """To be sent to a worker."""
        return asdict(self)


def _is_pattern(pattern: str) -> bool:
    rest, numbers = _NUMBER_IN_PATTERN.subn("", pattern)
    return numbers == 1 and "%" not in rest.replace("%%", "")


def processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))
