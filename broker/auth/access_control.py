"""Access control: authenticates logins and authorises operations for the rest of the broker.

It calls the configured backends (broker/auth/identity.py). A local backend answers immediately. A
backend that sends a network request returns an awaitable, which is awaited in an asyncio task while
the caller waits for the `Answer` (broker/runtime/pending.py). So checks are coroutines. They run
before anything is changed, as in RabbitMQ.

Answers from the network are cached for `ANSWER_MS`, as RabbitMQ's channels do. Changes of the
node's own permissions take effect immediately (broker/auth/permissions.py).
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol, TypeVar

from leveret.broker.amqp.errors import access_refused, not_allowed
from leveret.broker.auth.addresses import is_loopback
from leveret.broker.auth.attempt_counts import AttemptCounts
from leveret.broker.auth.attempts import AttemptLimiter
from leveret.broker.auth.backends.internal import InternalBackend
from leveret.broker.auth.identity import Allowed, BackendUnavailable, Identity, LoginAttempt
from leveret.broker.config import Config
from leveret.broker.runtime.clock import Clock
from leveret.broker.runtime.names import EXCHANGE, resource
from leveret.broker.runtime.pending import Answer, given

DEFAULT_EXCHANGE = "amq.default"
ANSWER_MS = 15_000
ANSWERS_MAX = 4096

Value = TypeVar("Value")
Decision = bool | Answer[bool]
"""Whether an operation is allowed: a known result, or a pending answer."""
Question = tuple[object, ...]
"""The key of a cached answer: a kind, a backend and the arguments. An exchange may be called
`queue`, and users of two backends may have the same name."""

logger = logging.getLogger("leveret.auth")


class BackendChain(Protocol):
    """The configured backends, tried in order (broker/auth/backends/chain.py)."""

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The identity from the first backend that accepts the credentials."""

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """The identity with a new secret; None if it is refused."""

    async def close(self) -> None:
        """Close the connections to backends."""


class AccessControl:
    """The logins and permissions of one node."""

    def __init__(
        self, config: Config, clock: Clock, internal: InternalBackend, chain: BackendChain | None
    ) -> None:
        self.attempts = AttemptCounts()
        self._limiter = AttemptLimiter(clock, config.authentication.failures_per_minute)
        self._config = config
        self._clock = clock
        self._internal = internal
        self._chain = chain
        self._answers: dict[Question, tuple[bool, int]] = {}
        # Strong references, since the event loop holds only weak ones to tasks.
        self._tasks: set[asyncio.Task[None]] = set()

    # Logging in

    @property
    def decides_at_once(self) -> bool:
        """Whether logins are checked without network requests."""
        return self._chain is None

    def is_own(self, identity: Identity) -> bool:
        """Whether the user is one of the cluster's own, with permissions that every node has."""
        return identity.authorization is self._internal

    def own_identity(self, name: str, tags: tuple[str, ...]) -> Identity:
        """A user for whom `is_own` was true on another node, where the login was checked."""
        return Identity(name, tags, authorization=self._internal)

    def log_in_at_once(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, or None; for a node that has its own users only (`decides_at_once`)."""
        if not self._may_try(attempt):
            return None
        return self._judged(attempt, self._internal.log_in(attempt))

    def begin_log_in(self, attempt: LoginAttempt) -> Answer[Identity | None]:
        """The answer of `log_in`, given immediately unless it needs a network request."""
        if self._chain is None:
            return given(self.log_in_at_once(attempt))
        return self._later(self.log_in(attempt))

    async def log_in(self, attempt: LoginAttempt) -> Identity | None:
        """The identity, or None if the login is refused; the reason is logged."""
        if self._chain is None:
            return self.log_in_at_once(attempt)
        async with self._limiter.turn(attempt):
            if not self._may_try(attempt):
                return None
            try:
                identity = await self._chain.authenticate(attempt)
            except BackendUnavailable as problem:
                logger.error("the login of '%s' cannot be checked: %s", attempt.shown_name, problem)
                identity = None
            return self._judged(attempt, identity)

    def _may_try(self, attempt: LoginAttempt) -> bool:
        if self._limiter.may_try(attempt):
            return True
        self.attempts.note(attempt, succeeded=False)
        logger.error(
            "login of '%s' refused: too many failed logins from %s",
            attempt.shown_name, attempt.peer_host,
        )  # fmt: skip
        return False

    def _judged(self, attempt: LoginAttempt, identity: Identity | None) -> Identity | None:
        host = attempt.peer_host
        source = attempt.source or host
        if identity is None:
            logger.error("%s: wrong user name or password for '%s'", source, attempt.shown_name)
        elif identity.name in self._config.loopback_users and not is_loopback(host):
            logger.error("%s: user '%s' can only connect via localhost", source, identity.name)
            identity = None
        self._limiter.note(attempt, succeeded=identity is not None)
        self.attempts.note(attempt, succeeded=identity is not None)
        return identity

    def begin_renew(self, identity: Identity, secret: str) -> Answer[Identity | None]:
        """The identity with a new secret; None if it is refused; the reason is logged."""
        if self._chain is None:
            return given(identity)
        return self._later(self._renew(self._chain, identity, secret))

    async def _renew(self, chain: BackendChain, identity: Identity, secret: str) -> Identity | None:
        try:
            return await chain.renew(identity, secret)
        except BackendUnavailable as problem:
            logger.error("the new secret of '%s' cannot be checked: %s", identity.name, problem)
            return None

    # Checking

    async def check_vhost(self, identity: Identity, vhost: str, peer_host: str) -> None:
        """Raise 530 unless the identity may open the vhost."""
        if not await _waited_for(self.may_use_vhost(identity, vhost, peer_host)):
            raise not_allowed(f"access to vhost '{vhost}' refused for user '{identity.name}'")

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> Decision:
        """Whether the identity may open the vhost."""
        backend = identity.authorization
        if backend is None:
            return False
        question = ("vhost", backend, identity, vhost, peer_host)
        return self._decide(question, lambda: backend.may_use_vhost(identity, vhost, peer_host))

    async def check(
        self,
        identity: Identity,
        vhost: str,
        kind: str,
        name: str,
        permission: str,
        asked: Decision | None = None,
    ) -> None:
        """Raise 403 unless the identity has the permission: configure, write or read.

        asked: the decision, if `may_use` has been called.
        """
        if asked is None:
            asked = self.may_use(identity, vhost, kind, name, permission)
        if not await _waited_for(asked):
            what = resource(kind, _checked_name(kind, name), vhost)
            raise access_refused(
                f"{permission} access to {what} refused for user '{identity.name}'"
            )

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> Decision:
        """Whether the identity has the permission: configure, write or read."""
        backend = identity.authorization
        if backend is None:
            return False
        name = _checked_name(kind, name)
        return self._decide(
            ("resource", backend, identity, vhost, kind, name, permission),
            lambda: backend.may_use(identity, vhost, kind, name, permission),
        )

    async def check_topic(
        self,
        identity: Identity,
        vhost: str,
        exchange: str,
        routing_key: str,
        permission: str,
        asked: Decision | None = None,
    ) -> None:
        """Raise 403 if the identity's topic permissions do not allow the routing key.

        asked: the decision, if `may_use_topic` has been called.
        """
        if asked is None:
            asked = self.may_use_topic(identity, vhost, exchange, routing_key, permission)
        if not await _waited_for(asked):
            what = f"topic '{routing_key}' in {resource(EXCHANGE, exchange, vhost)}"
            raise access_refused(
                f"{permission} access to {what} refused for user '{identity.name}'"
            )

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> Decision:
        """Whether the identity's topic permissions allow the routing key."""
        backend = identity.authorization
        if backend is None:
            return False
        return self._decide(
            ("topic", backend, identity, vhost, exchange, routing_key, permission),
            lambda: backend.may_use_topic(identity, vhost, exchange, routing_key, permission),
        )

    def _decide(self, question: Question, ask: Callable[[], Allowed]) -> Decision:
        known = self._answers.get(question) if self._answers else None
        if known is not None:
            if self._clock.now_ms() < known[1]:
                return known[0]
            del self._answers[question]
        answer = ask()
        if isinstance(answer, bool):
            return answer
        return self._later(self._asked(question, answer))

    async def _asked(self, question: Question, answer: Awaitable[bool]) -> bool:
        try:
            allowed = await answer
        except BackendUnavailable as problem:
            logger.error("a permission cannot be checked and is denied: %s", problem)
            allowed = False
        if len(self._answers) >= ANSWERS_MAX:
            self._answers.clear()
        self._answers[question] = (allowed, self._clock.now_ms() + ANSWER_MS)
        return allowed

    def _later(self, asking: Coroutine[Any, Any, Value]) -> Answer[Value]:
        """Ask in an asyncio task. Errors except BackendUnavailable are raised to the waiter."""
        answer: Answer[Value] = Answer()

        async def ask() -> None:
            try:
                value = await asking
            except Exception as error:
                answer.refuse(error)
            else:
                answer.give(value)

        task = asyncio.get_running_loop().create_task(ask())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return answer

    def forget(self) -> None:
        """Clear the cache of answers."""
        self._answers.clear()

    async def close(self) -> None:
        """Close the connections to backends; pending requests get no answer."""
        for task in self._tasks:
            task.cancel()
        if self._chain is not None:
            await self._chain.close()


def _checked_name(kind: str, name: str) -> str:
    """The name by which permissions know a queue or exchange."""
    return DEFAULT_EXCHANGE if kind == EXCHANGE and not name else name


async def _waited_for(decision: Decision) -> bool:
    return decision if isinstance(decision, bool) else await decision
