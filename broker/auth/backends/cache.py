"""Caches the answers of other backends, as rabbitmq_auth_backend_cache does.

Positive answers are cached for `auth_cache.cache_ttl`, but no longer than the login is valid.
Refusals are not cached, unless `auth_cache.cache_refusals` is set. The key of an answer contains a
hash of the password, made with a random key that is lost when the process ends. When the cache is
full, the oldest answer is removed.
"""

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from leveret.broker.auth.backends.pair import Pair
from leveret.broker.auth.identity import Allowed, Identity, LoginAttempt
from leveret.broker.runtime.clock import Clock

ANSWERS_MAX = 10_000

Question = tuple[object, ...]


class CachedBackend:
    """An authentication and authorization backend that asks others."""

    def __init__(self, inner: Pair, clock: Clock, ttl_ms: int, keeps_refusals: bool) -> None:
        self._inner = inner
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._keeps_refusals = keeps_refusals
        self._key = secrets.token_bytes(32)
        self._answers: dict[Question, tuple[Any, int]] = {}

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """The cached answer, or that of the other backend."""
        question = ("user", attempt.name, self._hashed(attempt.password), attempt.peer_host)
        known = self._known(question)
        if known is not None:
            identity: Identity | None = known[0]
            return identity
        identity = await self._inner.authenticate(attempt)
        if identity is not None:
            identity = replace(identity, authorization=self)
        self._keep(question, identity, identity)
        return identity

    def _hashed(self, password: str | None) -> bytes | None:
        if password is None:
            return None
        data = password.encode("utf-8", "surrogateescape")
        return hmac.new(self._key, data, hashlib.sha256).digest()

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """Not cached: a new secret is always checked."""
        renewed = await self._inner.renew(identity, secret)
        return None if renewed is None else replace(renewed, authorization=self)

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> Allowed:
        """The cached answer, or that of the other backend."""
        question = ("vhost", identity, identity.state, vhost, peer_host)
        return self._answer(
            question, identity, lambda: self._inner.may_use_vhost(identity, vhost, peer_host)
        )

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> Allowed:
        """The cached answer, or that of the other backend."""
        question = ("resource", identity, identity.state, vhost, kind, name, permission)
        return self._answer(
            question, identity, lambda: self._inner.may_use(identity, vhost, kind, name, permission)
        )

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> Allowed:
        """The cached answer, or that of the other backend."""
        question = ("topic", identity, identity.state, vhost, exchange, routing_key, permission)
        return self._answer(
            question,
            identity,
            lambda: self._inner.may_use_topic(identity, vhost, exchange, routing_key, permission),
        )

    def _answer(
        self, question: Question, identity: Identity, ask: Callable[[], Allowed]
    ) -> Allowed:
        known = self._known(question)
        if known is not None:
            return bool(known[0])
        answer = ask()
        if isinstance(answer, bool):
            self._keep(question, answer, identity)
            return answer
        return self._later(question, identity, answer)

    async def _later(self, question: Question, identity: Identity, answer: Awaitable[bool]) -> bool:
        allowed = await answer
        self._keep(question, allowed, identity)
        return allowed

    def _known(self, question: Question) -> tuple[Any] | None:
        found = self._answers.get(question)
        if found is None:
            return None
        if self._clock.now_ms() >= found[1]:
            del self._answers[question]
            return None
        return (found[0],)

    def _keep(self, question: Question, answer: Any, identity: Identity | None) -> None:
        if not answer and not self._keeps_refusals:
            return
        self._answers.pop(question, None)
        if len(self._answers) >= ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]
        self._answers[question] = (answer, self._clock.now_ms() + self._lifetime_ms(identity))

    def _lifetime_ms(self, identity: Identity | None) -> int:
        if identity is None or identity.expires_at_s is None:
            return self._ttl_ms
        left_ms = int((identity.expires_at_s - self._clock.wall_time_s()) * 1000)
        return min(self._ttl_ms, max(0, left_ms))

    async def close(self) -> None:
        """Close the connections of the other backends."""
        await self._inner.close()
