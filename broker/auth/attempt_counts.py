"""Login attempts by protocol and by the client's address, for the management API and the metrics.

RabbitMQ counts them by user name, too. Leveret does not, because a wrong name may be a password.
"""

from collections import OrderedDict
from dataclasses import dataclass

from leveret.broker.auth.addresses import source_of
from leveret.broker.auth.identity import LoginAttempt

SOURCES_MAX = 10_000
"""How many sources are remembered; the least recently seen are forgotten first."""


@dataclass(slots=True)
class Outcomes:
    """The attempts of one kind."""

    succeeded: int = 0
    failed: int = 0

    def add(self, succeeded: bool) -> None:
        """Count one."""
        if succeeded:
            self.succeeded += 1
        else:
            self.failed += 1


class AttemptCounts:
    """by_protocol: since the last reset. by_source: the same by address and protocol."""

    def __init__(self) -> None:
        self.by_protocol: dict[str, Outcomes] = {}
        self.by_source: OrderedDict[tuple[str, str], Outcomes] = OrderedDict()

    def note(self, attempt: LoginAttempt, *, succeeded: bool) -> None:
        """Count an attempt."""
        self.by_protocol.setdefault(attempt.protocol, Outcomes()).add(succeeded)
        source = (source_of(attempt.peer_host), attempt.protocol)
        self.by_source.setdefault(source, Outcomes()).add(succeeded)
        self.by_source.move_to_end(source)
        if len(self.by_source) > SOURCES_MAX:
            self.by_source.popitem(last=False)

    def reset(self) -> None:
        """Forget all of them. The rate limit (attempts.py) does not depend on them."""
        self.by_protocol.clear()
        self.by_source.clear()
