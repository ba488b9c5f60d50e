"""The step of a migration, which a global parameter of this node keeps durably.

    (none) ── migrate ──► importing ──► moving ── finish_migration ──► finishing ──► (none)
                              │           │ ▲                              │
                              └────────┬──┘ └── migrate ──┐                │
                                       ▼                  │                │
                    roll_back_migration: returning ───────┘  ◄─────────────┘
                                       │
                                       └──► (none)

Each step can be repeated: a migration that was broken off goes on with the step that it was at.
While there is one, another source is refused. A second parameter names the process that carries it
out, and is renewed: while it is there, another process is refused. It does not count if its process
has died, or if it was not renewed for a minute.
"""

import os
import secrets
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

from leveret.broker.amqp.uri import without_credentials
from leveret.mgmt.ctl.client import HttpError
from leveret.mgmt.ctl.errors import DATA_ERROR, CtlError, failure
from leveret.mgmt.ctl.migrating.brokers import NOT_FOUND, MigrationBroker
from leveret.mgmt.ctl.migrating.carrying_over import STATE_PREFIX, Held

NONE, IMPORTING, MOVING, FINISHING, RETURNING = (
    "none", "importing", "moving", "finishing", "returning"
)  # fmt: skip
STARTED, IMPORTED, FINISH, ROLL_BACK, ENDED = (
    "started", "imported", "finish", "roll_back", "ended"
)  # fmt: skip
NEXT: Final = {
    (NONE, STARTED): IMPORTING,
    (IMPORTING, IMPORTED): MOVING,
    (IMPORTING, ROLL_BACK): RETURNING,
    (MOVING, STARTED): MOVING,
    (MOVING, FINISH): FINISHING,
    (MOVING, ROLL_BACK): RETURNING,
    (FINISHING, STARTED): FINISHING,
    (FINISHING, FINISH): FINISHING,
    (FINISHING, ROLL_BACK): RETURNING,
    (FINISHING, ENDED): NONE,
    (IMPORTING, STARTED): IMPORTING,
    (RETURNING, STARTED): MOVING,
    (RETURNING, ROLL_BACK): RETURNING,
    (RETURNING, ENDED): NONE,
}
"""The next step, by the current one and the request or event."""
IN, BACK = "in", "back"
"""To this node, or from this node to the other broker."""
STALE_SECONDS: Final = 60
RUN: Final = f"{STATE_PREFIX}_run"


@dataclass(frozen=True)
class MigrationState:
    """step: one of the above. uri, management: of the other broker, without a password. way: `in`
    or `back`. links_max: connections to the other broker. held: parameters that are imported at the
    end. has_handed_over: some of them may be at the target already. cluster: the other broker's
    name, which all nodes of its cluster have.
    """

    uri: str
    management: str
    way: str = IN
    step: str = NONE
    links_max: int = 500
    held: tuple[Held, ...] = field(default=())
    has_handed_over: bool = False
    cluster: str = ""

    @property
    def between(self) -> str:
        """From or to which broker it is, as texts say it."""
        way = "to" if self.way == BACK else "from"
        return f"{way} {without_credentials(self.uri)} (management at {self.management})"

    def after(self, event: str) -> "MigrationState":
        """The state after a request or event. Raises CtlError if it is not possible now."""
        step = NEXT.get((self.step, event))
        if step is None:
            raise failure(
                f"the migration is at the step '{self.step}': {event.replace('_', ' ')} is not "
                "possible now. 'leveretctl migration_status' shows how far it is", DATA_ERROR,
            )  # fmt: skip
        return replace(self, step=step)


def load(node: MigrationBroker) -> MigrationState | None:
    """The migration of this node, if there is one."""
    try:
        value: dict[str, Any] = node.get("global-parameters", STATE_PREFIX)["value"]
    except HttpError as error:
        if error.status != NOT_FOUND:
            raise
        return None
    return MigrationState(**{**value, "held": tuple(Held(*one) for one in value["held"])})


def store(node: MigrationBroker, state: MigrationState) -> None:
    """Keep a state; that of an ended migration is removed."""
    if state.step == NONE:
        node.delete("global-parameters", STATE_PREFIX)
        return
    value = {**asdict(state), "held": [list(one) for one in state.held]}
    body = {"name": STATE_PREFIX, "value": value}
    node.ask("PUT", "global-parameters", STATE_PREFIX, body=body)


class OnlyRun:
    """The sign that this process carries out the migration. `renew` it at least each minute."""

    def __init__(self, node: MigrationBroker) -> None:
        self._node = node
        self._name = f"{RUN} {secrets.token_hex(4)}"
        self._host = socket.gethostname()

    @contextmanager
    def alone(self) -> Iterator[None]:
        """Be the only process. Raises CtlError if there is another."""
        self.renew()
        try:
            self.require()
            yield
        finally:
            self.end()

    def renew(self) -> None:
        """Say that it still runs."""
        value = {"host": self._host, "process": os.getpid(), "at": int(time.time())}
        body = {"name": self._name, "value": value}
        self._node.ask("PUT", "global-parameters", self._name, body=body)

    def require(self) -> None:
        """Raise CtlError if another process carries it out. Both may be refused, if they start at
        the same moment.
        """
        for one in self._node.get("global-parameters"):
            if not one["name"].startswith(f"{RUN} ") or one["name"] == self._name:
                continue
            value = one["value"]
            if self._is_alive(value):
                raise failure(
                    f"another leveretctl carries out a migration of this node: process "
                    f"{value['process']} on {value['host']}. Wait for its end, or stop it",
                    DATA_ERROR,
                )
            self._node.delete("global-parameters", one["name"])

    def _is_alive(self, value: dict[str, Any]) -> bool:
        if value["host"] == self._host:
            try:
                os.kill(value["process"], 0)
            except ProcessLookupError:
                return False
            except PermissionError:
                return True
            return True
        return bool(time.time() - value["at"] < STALE_SECONDS)

    def end(self) -> None:
        """Remove the sign. If the node does not answer, the sign counts no longer than the process,
        and the error that ends the process is of more use.
        """
        with suppress(CtlError):
            self._node.delete("global-parameters", self._name)
