"""The authentication cache: which answers it keeps, for whom and how long."""

from dataclasses import replace

import pytest

from leveret.broker.auth.backends import cache
from leveret.broker.auth.backends.cache import CachedBackend
from leveret.broker.auth.backends.pair import Pair
from leveret.broker.auth.identity import BackendUnavailable, Identity, LoginAttempt
from leveret.broker.runtime.virtual_clock import VirtualClock

ATTEMPT = LoginAttempt("anna", "secret", "127.0.0.1")
TTL_MS = 15_000


class CountingBackend:
    """Knows anna's secret and permissions, and counts queries."""

    def __init__(self):
        self.asked = 0
        self.identity = Identity("anna", state="login 1")
        self.is_down = False

    async def authenticate(self, attempt):
        self.asked += 1
        if self.is_down:
            raise BackendUnavailable("down")
        return self.identity if attempt.password == "secret" else None

    async def renew(self, identity, secret):
        self.asked += 1
        return replace(identity, state=secret)

    def may_use_vhost(self, identity, vhost, peer_host):
        self.asked += 1
        return vhost == "good"

    async def may_use(self, identity, vhost, kind, name, permission):
        self.asked += 1
        return name == "good"

    def may_use_topic(self, identity, vhost, exchange, routing_key, permission):
        self.asked += 1
        return identity.state == "login 1"


@pytest.fixture
def inner():
    return CountingBackend()


@pytest.fixture
def clock():
    return VirtualClock()


def cached(inner, clock, keeps_refusals=False):
    return CachedBackend(Pair(inner, inner, "http"), clock, TTL_MS, keeps_refusals)


async def test_a_login_is_kept_for_a_while(inner, clock):
    backend = cached(inner, clock)
    for _ in range(3):
        identity = await backend.authenticate(ATTEMPT)
        assert (identity.name, identity.authorization) == ("anna", backend)
    assert inner.asked == 1
    clock.advance(TTL_MS / 1000)
    await backend.authenticate(ATTEMPT)
    assert inner.asked == 2


async def test_for_this_password_only(inner, clock):
    backend = cached(inner, clock)
    await backend.authenticate(ATTEMPT)
    assert await backend.authenticate(replace(ATTEMPT, password="wrong")) is None
    assert await backend.authenticate(replace(ATTEMPT, password=None)) is None
    assert inner.asked == 3


async def test_a_password_is_not_kept(inner, clock):
    backend = cached(inner, clock, keeps_refusals=True)
    await backend.authenticate(replace(ATTEMPT, password="hare-and-burrow"))
    assert "hare-and-burrow" not in repr(vars(backend))


async def test_permissions_are_kept_whether_they_had_to_be_waited_for_or_not(inner, clock):
    backend = cached(inner, clock)
    identity = await backend.authenticate(ATTEMPT)
    for _ in range(3):
        assert backend.may_use_vhost(identity, "good", "127.0.0.1") is True
    assert await backend.may_use(identity, "good", "queue", "good", "read") is True
    assert backend.may_use(identity, "good", "queue", "good", "read") is True
    assert inner.asked == 3


@pytest.mark.parametrize(("keeps_refusals", "asked"), [(False, 4), (True, 2)])
async def test_refusals_are_asked_again_unless_they_are_kept(inner, clock, keeps_refusals, asked):
    backend = cached(inner, clock, keeps_refusals)
    for _ in range(2):
        assert await backend.authenticate(replace(ATTEMPT, password="wrong")) is None
        assert backend.may_use_vhost(inner.identity, "bad", "127.0.0.1") is False
    assert inner.asked == asked


async def test_two_logins_of_one_user_may_be_allowed_different_things(inner, clock):
    backend = cached(inner, clock)
    assert backend.may_use_topic(inner.identity, "/", "x", "key", "write") is True
    other = replace(inner.identity, state="login 2")
    assert backend.may_use_topic(other, "/", "x", "key", "write") is False


async def test_nothing_is_kept_for_longer_than_the_login_is_good(inner, clock):
    inner.identity = replace(inner.identity, expires_at_s=clock.wall_time_s() + 5)
    backend = cached(inner, clock)
    identity = await backend.authenticate(ATTEMPT)
    backend.may_use_vhost(identity, "good", "127.0.0.1")
    clock.advance(5)
    await backend.authenticate(ATTEMPT)
    backend.may_use_vhost(identity, "good", "127.0.0.1")
    assert inner.asked == 4


async def test_a_new_secret_is_always_asked_about(inner, clock):
    backend = cached(inner, clock)
    for asked in (1, 2):
        renewed = await backend.renew(inner.identity, "new")
        assert (renewed.state, renewed.authorization, inner.asked) == ("new", backend, asked)


async def test_that_the_others_are_down_is_not_kept(inner, clock):
    backend = cached(inner, clock, keeps_refusals=True)
    inner.is_down = True
    with pytest.raises(BackendUnavailable):
        await backend.authenticate(ATTEMPT)
    inner.is_down = False
    assert await backend.authenticate(ATTEMPT) is not None


async def test_the_oldest_answers_go_when_there_are_too_many(inner, clock, monkeypatch):
    monkeypatch.setattr(cache, "ANSWERS_MAX", 2)
    backend = cached(inner, clock)
    for host in ("1", "2", "3", "2", "3"):
        backend.may_use_vhost(inner.identity, "good", host)
    assert inner.asked == 3
    backend.may_use_vhost(inner.identity, "good", "1")
    assert inner.asked == 4
