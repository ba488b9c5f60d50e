"""Failed logins are limited by address and name."""

import asyncio
import gc
import tracemalloc

import pytest

from leveret.broker.auth import attempts
from leveret.broker.auth.access_control import AccessControl
from leveret.broker.auth.attempts import NAMES, AttemptLimiter
from leveret.broker.auth.identity import Identity, LoginAttempt
from leveret.broker.config import AuthenticationSettings, Config
from leveret.broker.runtime.virtual_clock import VirtualClock

HERE, THERE, LOOPBACK = "192.0.2.1", "192.0.2.2", "127.0.0.1"
LIMIT = 3


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def limiter(clock):
    return AttemptLimiter(clock, LIMIT)


def login(address=HERE, name="anna", password="wrong"):
    return LoginAttempt(name, password, address)


def fail(limiter, times=1, **which):
    for _ in range(times):
        limiter.note(login(**which), succeeded=False)


def test_only_the_limit_may_fail_and_then_one_as_time_goes_by(limiter, clock):
    fail(limiter, LIMIT)
    assert not limiter.may_try(login())
    clock.advance(20)
    assert limiter.may_try(login())
    fail(limiter)
    assert not limiter.may_try(login())


@pytest.mark.parametrize("address", [HERE, LOOPBACK, "::1"])
def test_other_names_at_the_address_are_not_locked_out(limiter, address):
    fail(limiter, LIMIT, address=address)
    assert not limiter.may_try(login(address))
    assert limiter.may_try(login(address, "bert"))


def test_the_user_is_not_locked_out_elsewhere(limiter):
    fail(limiter, LIMIT)
    assert limiter.may_try(login(THERE))


def test_known_credentials_are_let_in_while_others_guess(limiter):
    limiter.note(login(password="right"), succeeded=True)
    fail(limiter, 10 * LIMIT)
    assert limiter.may_try(login(password="right"))
    assert not limiter.may_try(login(password="guess"))
    assert not limiter.may_try(login(password=None))


def test_refused_credentials_lose_their_privilege(limiter):
    limiter.note(login(password="old"), succeeded=True)
    fail(limiter, LIMIT)
    fail(limiter, password="old")
    assert not limiter.may_try(login(password="old"))


def test_a_success_in_between_gives_no_further_tries(limiter):
    """Otherwise an attacker with an account could guess other passwords without limit."""
    for _ in range(LIMIT):
        fail(limiter)
        limiter.note(login(password="right"), succeeded=True)
    assert not limiter.may_try(login())


def test_many_names_at_one_address_have_a_limit_together(limiter):
    for number in range(LIMIT * NAMES):
        assert limiter.may_try(login(name=f"user {number}"))
        fail(limiter, name=f"user {number}")
    assert not limiter.may_try(login(name="one more"))
    assert limiter.may_try(login(THERE, "one more"))


def test_many_names_at_a_loopback_address_have_none(limiter):
    for number in range(2 * LIMIT * NAMES):
        fail(limiter, address=LOOPBACK, name=f"user {number}")
    assert limiter.may_try(login(LOOPBACK, "one more"))


def test_a_host_has_one_ipv6_network_and_not_all_its_addresses(limiter):
    for number in range(LIMIT):
        fail(limiter, address=f"2001:db8:1:2::{number:x}")
    assert not limiter.may_try(login("2001:db8:1:2:ffff::1"))
    assert limiter.may_try(login("2001:db8:1:3::1"))


def test_failures_do_not_make_it_forget_successful_logins(limiter, monkeypatch):
    monkeypatch.setattr(attempts, "KEPT_MAX", 20)
    limiter.note(login(password="right"), succeeded=True)
    for number in range(50):
        fail(limiter, name=f"user {number}")
    fail(limiter, LIMIT)
    assert limiter.may_try(login(password="right"))
    assert len(limiter._tries) == 20


def test_without_a_limit_nothing_is_remembered(clock):
    limiter = AttemptLimiter(clock, None)
    fail(limiter, 100)
    limiter.note(login(password="right"), succeeded=True)
    assert limiter.may_try(login())
    assert not limiter._tries
    assert not limiter._accepted


class SlowChain:
    """A slow directory that knows the password `right`."""

    def __init__(self):
        self.may_answer, self.asked = asyncio.Event(), 0

    async def authenticate(self, attempt):
        self.asked += 1
        await self.may_answer.wait()
        return Identity(attempt.name) if attempt.password == "right" else None


async def log_in_all(clock, logins, first=LIMIT):
    """Return which simultaneous logins succeed, and how many reach the directory."""
    chain = SlowChain()
    config = Config(authentication=AuthenticationSettings(failures_per_minute=LIMIT))
    access = AccessControl(config, clock, internal=None, chain=chain)
    logins = [asyncio.ensure_future(access.log_in(one)) for one in logins]
    while chain.asked < first:
        await asyncio.sleep(0)
    chain.may_answer.set()
    return await asyncio.gather(*logins), chain.asked


async def test_many_guesses_at_once_are_not_all_looked_at(clock):
    _, asked = await log_in_all(clock, [login()] * 50)
    assert asked == LIMIT


async def test_nor_are_those_of_many_names(clock):
    logins = [login(name=f"user {number}") for number in range(20 * NAMES)]
    _, asked = await log_in_all(clock, logins, LIMIT * NAMES)
    assert asked == LIMIT * NAMES


async def test_many_clients_that_come_back_at_once_are_all_let_in(clock):
    let_in, _ = await log_in_all(clock, [login(password="right")] * 50)
    assert all(let_in)


def test_long_names_take_no_memory(limiter):
    name = "x" * 60_000
    gc.collect()
    tracemalloc.start()
    for number in range(100):
        which = {"name": f"{name}{number}", "password": name}
        assert limiter.may_try(login(**which))
        fail(limiter, address=THERE, **which)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert len(limiter._tries) > 100
    assert kept < 20 * len(name)


async def test_the_log_has_the_begin_of_a_long_name(clock, caplog):
    identities, _ = await log_in_all(clock, [login(name="x" * 60_000)] * (LIMIT + 1))
    assert identities == [None] * (LIMIT + 1)
    assert "wrong user name or password" in caplog.text
    assert "too many failed logins" in caplog.text
    assert max(map(len, caplog.messages)) < 200
