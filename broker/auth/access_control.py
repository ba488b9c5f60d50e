"""Who may log in, and who may do what: what the rest of the broker asks.

Behind it are the backends of the configuration (broker/auth/identity.py). Those that know the
answer give it at once, and nothing waits. One that has to ask over the network gives an awaitable;
then `Undecided` is raised, and whoever handles the client's method (net/connection.py) waits for it
and does the method again, which finds the answer here. So no check may come after something was
changed, and none does: RabbitMQ, too, checks first.

Answers that had to be waited for are kept for a while (`ANSWER_MS`), as RabbitMQ's channels keep
theirs; those of the node's own permissions change at once (broker/auth/permissions.py).
"""

import logging
from collections.abc import Awaitable, Callable
from typing import Protocol

from broker.amqp.errors import access_refused, not_allowed
from broker.auth.attempts import AttemptLimiter
from broker.auth.backends.internal import InternalBackend
from broker.auth.identity import Answer, BackendUnavailable, Identity, LoginAttempt
from broker.auth.users import is_loopback
from broker.clock import Clock
from broker.config import Config
from broker.names import EXCHANGE, resource

DEFAULT_EXCHANGE = "amq.default"
ANSWER_MS = 15_000
ANSWERS_MAX = 4096

Question = tuple[object, ...]
"""A kind, a backend and what it is asked. An exchange may be called `queue`, and users of two
backends may have one name."""

logger = logging.getLogger("leveret.auth")


class Chain(Protocol):
    """The backends of the configuration, one after the other (broker/auth/backends/chain.py)."""

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, of the first backend that knows the credentials."""

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The identity with a new secret; None if it is refused."""

    async def close(self) -> None:
        """Let go of connections."""


class Undecided(Exception):
    """Somebody over the network has to be asked first.

    retry: what to do again when the answer is there; whoever handles methods sets it.
    """

    def __init__(self, settle: Callable[[], Awaitable[None]]) -> None:
        super().__init__("a backend has to be asked")
        self.settle = settle
        self.retry: Callable[[], object] | None = None


class AccessControl:
    """The logins and permissions of one node."""

    def __init__(
        self, config: Config, clock: Clock, internal: InternalBackend, chain: Chain | None
    ) -> None:
        self.limiter = AttemptLimiter(clock, config.auth_failures_per_minute)
        self._config = config
        self._clock = clock
        self._internal = internal
        self._chain = chain
        self._answers: dict[Question, tuple[bool, int]] = {}

    # Logging in

    @property
    def decides_at_once(self) -> bool:
        """Logins are checked without asking anybody over the network."""
        return self._chain is None

    def log_in_at_once(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, or None; for a node that has its own users only (`decides_at_once`)."""
        if not self._may_try(attempt):
            return None
        return self._judged(attempt, self._internal.log_in(attempt))

    async def log_in(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, or None if the login is refused; why is in the log."""
        if self._chain is None:
            return self.log_in_at_once(attempt)
        async with self.limiter.turn(attempt.peer_host):
            if not self._may_try(attempt):
                return None
            try:
                identity = await self._chain.authenticate(attempt)
            except BackendUnavailable as problem:
                logger.error("the login of '%s' cannot be checked: %s", attempt.name, problem)
                identity = None
            return self._judged(attempt, identity)

    def _may_try(self, attempt: LoginAttempt) -> bool:
        if self.limiter.may_try(attempt.peer_host):
            return True
        logger.error(
            "login of '%s' refused: too many failed logins from %s", attempt.name, attempt.peer_host
        )
        return False

    def _judged(self, attempt: LoginAttempt, identity: Identity | None) -> Identity | None:
        host = attempt.peer_host
        source = attempt.source or host
        if identity is None:
            logger.error("%s: wrong user name or password for '%s'", source, attempt.name)
        elif identity.name in self._config.loopback_users and not is_loopback(host):
            logger.error("%s: user '%s' can only connect via localhost", source, identity.name)
            identity = None
        self.limiter.note(host, succeeded=identity is not None)
        return identity

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The identity with a new secret; None if it is refused."""
        if self._chain is None:
            return identity
        try:
            return await self._chain.renew(identity, secret)
        except BackendUnavailable as problem:
            logger.error("the new secret of '%s' cannot be checked: %s", identity.name, problem)
            return None

    # Checking

    def check_vhost(self, identity: Identity, vhost: str, peer_host: str) -> None:
        """Raise 530 unless the identity may open the vhost."""
        if not self.may_use_vhost(identity, vhost, peer_host):
            raise not_allowed(f"access to vhost '{vhost}' refused for user '{identity.name}'")

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> bool:
        """Whether the identity may open the vhost."""
        backend = identity.authorization
        if backend is None:
            return False
        question = ("vhost", id(backend), identity, vhost, peer_host)
        return self._decide(question, lambda: backend.may_use_vhost(identity, vhost, peer_host))

    def check(self, identity: Identity, vhost: str, kind: str, name: str, permission: str) -> None:
        """Raise 403 unless the identity has the permission: configure, write or read."""
        backend = identity.authorization
        if kind == EXCHANGE and not name:
            name = DEFAULT_EXCHANGE
        allowed = backend is not None and self._decide(
            ("resource", id(backend), identity, vhost, kind, name, permission),
            lambda: backend.may_use(identity, vhost, kind, name, permission),
        )
        if not allowed:
            what = resource(kind, name, vhost)
            raise access_refused(
                f"{permission} access to {what} refused for user '{identity.name}'"
            )

    def check_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> None:
        """Raise 403 if the identity's routing keys on this exchange are limited to others."""
        backend = identity.authorization
        allowed = backend is not None and self._decide(
            ("topic", id(backend), identity, vhost, exchange, routing_key, permission),
            lambda: backend.may_use_topic(identity, vhost, exchange, routing_key, permission),
        )
        if not allowed:
            what = f"topic '{routing_key}' in {resource(EXCHANGE, exchange, vhost)}"
            raise access_refused(
                f"{permission} access to {what} refused for user '{identity.name}'"
            )

    def _decide(self, question: Question, ask: Callable[[], Answer]) -> bool:
        known = self._answers.get(question)
        if known is not None:
            if self._clock.now_ms() < known[1]:
                return known[0]
            del self._answers[question]
        answer = ask()
        if isinstance(answer, bool):
            return answer
        raise Undecided(lambda: self._settle(question, answer))

    async def _settle(self, question: Question, answer: Awaitable[bool]) -> None:
        try:
            allowed = await answer
        except BackendUnavailable as problem:
            logger.error("a permission cannot be checked, and is refused: %s", problem)
            allowed = False
        if len(self._answers) >= ANSWERS_MAX:
            self._answers.clear()
        self._answers[question] = (allowed, self._clock.now_ms() + ANSWER_MS)

    async def decided(self, check: Callable[[], None]) -> None:
        """Do a check, however long the answer takes. Raises what the check raises."""
        while True:
            try:
                return check()
            except Undecided as undecided:
                settled = undecided.settle()
            await settled

    def forget(self) -> None:
        """Ask again for everything."""
        self._answers.clear()

    async def close(self) -> None:
        """Let go of the connections to backends."""
        if self._chain is not None:
            await self._chain.close()
