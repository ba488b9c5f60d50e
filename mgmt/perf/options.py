"""The options of a run (read by arguments.py), and what follows from them. Pure.

Options are passed to the worker processes as JSON, so all values are plain. `check` refuses
combinations that are invalid.
"""

import re
from dataclasses import asdict, dataclass, field
from typing import Any, Self

from leveret.mgmt.perf.schedule import NO_LIMIT, Part

BODY_BYTES_MIN = 12
"""PerfTest's smallest body."""
FRAME_BYTES_MAX = 131072

_NUMBER_IN_PATTERN = re.compile(r"%0?\d*d")


class OptionsError(ValueError):
    """The options are invalid; the message says which and why."""


@dataclass
class PerfOptions:
    """The options of a run.

    Rates are messages per second of each channel; `NO_LIMIT` is unlimited, and 0 sends nothing.
    Other numbers of 0 mean no limit, or unused. Sizes are bytes and times are seconds, except for
    consumers' latencies (microseconds) and the polling interval (milliseconds).
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
        """Unroutable messages are returned."""
        return "mandatory" in self.flag

    @property
    def ends_by_itself(self) -> bool:
        """The run ends when a number of messages is reached or queues are empty."""
        return bool(self.pmessages or self.cmessages or self.exit_when)

    def queue_names(self) -> list[str]:
        """Return the named queues: those of the pattern, or those that were given."""
        if not self.queue_pattern:
            return self.queues
        first, last = self.queue_pattern_from or 0, self.queue_pattern_to or 0
        return [self.queue_pattern % number for number in range(first, last + 1)]

    @property
    def takes_turns(self) -> bool:
        """Clients are assigned to queues in turn, one each; otherwise consumers use all queues."""
        return self.is_sequence or bool(self.queue_pattern)

    def process_count(self, processors: int) -> int:
        """Return the number of worker processes: producers and consumers are separated.

        At most half of the processors are used; the broker mostly runs on the same machine.
        """
        clients = self.producers + self.consumers
        if self.processes:
            return min(self.processes, clients)
        apart = 2 if self.producers and self.consumers else 1
        return max(1, min(clients, max(apart, processors // 2), processors))

    def check(self) -> Self:
        """Return the options. Raises OptionsError for an invalid combination."""
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
             "the default exchange routes by queue name: give --queue or --routing-key"),
            (self.exclusive and has_queues and self.consumers > 1,
             "an exclusive queue belongs to one connection: omit --queue, and each consumer has its"
             " own"),
            (self.exclusive and self.predeclared, "an exclusive queue cannot be --predeclared"),
            (self.predeclared and bool(self.consumers) and not has_queues,
             "--predeclared needs the names of the queues: give --queue or --queue-pattern"),
            (bool(self.confirm and self.ptxsize),
             "a channel either confirms or has transactions: give --confirm or --ptxsize"),
            (self.autoack and self.nack, "--autoack excludes --nack"),
            (self.autoack and bool(self.ctxsize), "--autoack excludes --ctxsize"),
            (bool(self.body and self.variable_size), "a --body from files has its own size"),
            (self.json_body and bool(self.body or self.variable_size),
             "--json-body excludes --body and --variable-size"),
            (bool(self.exit_when) and not self.consumers, "--exit-when needs consumers"),
            (bool(prefetch) and self.multi_ack_every > prefetch,
             "--multi-ack-every must not exceed --qos, or acks would never be sent"),
            (bool(prefetch) and self.ctxsize > prefetch,
             "--ctxsize must not exceed --qos, or no transaction would ever be complete"),
        ]  # fmt: skip

    def to_json(self) -> dict[str, Any]:
        """Encode for a worker."""
        return asdict(self)


def _is_pattern(pattern: str) -> bool:
    rest, numbers = _NUMBER_IN_PATTERN.subn("", pattern)
    return numbers == 1 and "%" not in rest.replace("%%", "")
