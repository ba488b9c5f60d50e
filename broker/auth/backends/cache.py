"""Keeps another backend's answers for a while, as rabbitmq_auth_backend_cache does.

What is allowed is kept for `auth_cache.cache_ttl`; what is refused is asked again, unless
`auth_cache.cache_refusals` says otherwise. Passwords are not kept, but a hash of them with a random
key that ends with the process.
"""

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from broker.auth.identity import Answer, Identity, LoginAttempt
from broker.clock import Clock

ANSWERS_MAX = 10_000


class CachedBackend:
    """Both kinds of backend around another that is both."""

    def __init__(self, inner: Any, clock: Clock, ttl_ms: int, keeps_refusals: bool) -> None:
        self._inner = inner
        self._clock = clock
        self._ttl_ms = ttl_ms
        self._keeps_refusals = keeps_refusals
        self._key = secrets.token_bytes(32)
        self._answers: dict[tuple[object, ...], tuple[Any, int]] = {}

    async def authenticate(self, attempt: LoginAttempt) -> Identity | None:
        """As the other says, or said of late."""
        secret = None
        if attempt.password is not None:
            data = attempt.password.encode("utf-8", "surrogateescape")
            secret = hmac.new(self._key, data, hashlib.sha256).digest()
        question = ("user", attempt.name, secret, attempt.peer_host)
        known = self._known(question)
        if known is not None:
            return known[0]  # type: ignore[no-any-return]
        identity: Identity | None = await self._inner.authenticate(attempt)
        self._keep(question, identity, identity is not None)
        return identity

    async def renew(self, identity: Identity, secret: str) -> Identity | None:
        """A new secret is new to the cache, too."""
        renewed: Identity | None = await self._inner.renew(identity, secret)
        return renewed

    def may_use_vhost(self, identity: Identity, vhost: str, peer_host: str) -> Answer:
        """As the other says, or said of late."""
        question = ("vhost", identity, vhost, peer_host)
        return self._answer(question, lambda: self._inner.may_use_vhost(identity, vhost, peer_host))

    def may_use(
        self, identity: Identity, vhost: str, kind: str, name: str, permission: str
    ) -> Answer:
        """As the other says, or said of late."""
        question = ("resource", identity, vhost, kind, name, permission)
        return self._answer(
            question, lambda: self._inner.may_use(identity, vhost, kind, name, permission)
        )

    def may_use_topic(
        self, identity: Identity, vhost: str, exchange: str, routing_key: str, permission: str
    ) -> Answer:
        """As the other says, or said of late."""
        question = ("topic", identity, vhost, exchange, routing_key, permission)
        return self._answer(
            question,
            lambda: self._inner.may_use_topic(identity, vhost, exchange, routing_key, permission),
        )

    def _answer(self, question: tuple[object, ...], ask: Callable[[], Answer]) -> Answer:
        known = self._known(question)
        if known is not None:
            return bool(known[0])
        answer = ask()
        if isinstance(answer, bool):
            self._keep(question, answer, answer)
            return answer
        return self._later(question, answer)

    async def _later(self, question: tuple[object, ...], answer: Awaitable[bool]) -> bool:
        allowed = await answer
        self._keep(question, allowed, allowed)
        return allowed

    def _known(self, question: tuple[object, ...]) -> tuple[Any] | None:
        found = self._answers.get(question)
        if found is None:
            return None
        if self._clock.now_ms() >= found[1]:
            del self._answers[question]
            return None
        return (found[0],)

    def _keep(self, question: tuple[object, ...], answer: Any, is_positive: bool) -> None:
        if is_positive or self._keeps_refusals:
            if len(self._answers) >= ANSWERS_MAX:
                self._answers.clear()
            self._answers[question] = (answer, self._clock.now_ms() + self._ttl_ms)

    async def close(self) -> None:
        """Let go of the other's connections."""
        close = getattr(self._inner, "close", None)
        if close is not None:
            await close()
