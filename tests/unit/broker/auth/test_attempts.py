"""Failed logins are counted by address."""

import asyncio

import pytest

from leveret.broker.auth.access_control import AccessControl
from leveret.broker.auth.attempts import ADDRESSES_MAX, AttemptLimiter, source_of
from leveret.broker.auth.identity import Identity, LoginAttempt
from leveret.broker.config import AuthenticationSettings, Config
from leveret.broker.virtual_clock import VirtualClock

HERE, THERE = "192.0.2.1", "192.0.2.2"


@pytest.fixture
def clock():
    return VirtualClock()


@pytest.fixture
def limiter(clock):
    return AttemptLimiter(clock, 3)


def fail(limiter, address, times=1):
    for _ in range(times):
        limiter.note(address, succeeded=False)


def test_so_many_may_fail_and_then_one_as_time_goes_by(limiter, clock):
    fail(limiter, HERE, 3)
    assert not limiter.may_try(HERE)
    clock.advance(20)
    assert limiter.may_try(HERE)
    fail(limiter, HERE)
    assert not limiter.may_try(HERE)


def test_others_are_not_locked_out(limiter):
    fail(limiter, HERE, 3)
    assert limiter.may_try(THERE)


def test_a_success_in_between_gives_no_further_tries(limiter):
    """Otherwise an attacker with an account could guess other passwords without limit."""
    for _ in range(3):
        fail(limiter, HERE)
        limiter.note(HERE, succeeded=True)
    assert not limiter.may_try(HERE)


def test_a_host_has_one_ipv6_network_and_not_all_its_addresses(limiter):
    for number in range(3):
        fail(limiter, f"2001:db8:1:2::{number:x}")
    assert not limiter.may_try("2001:db8:1:2:ffff::1")
    assert limiter.may_try("2001:db8:1:3::1")


@pytest.mark.parametrize(
    ("address", "source"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("::1", "::1"),
        ("fe80::1%eth0", "fe80::1"),
        ("", ""),
    ],
)
def test_what_an_address_is_counted_as(address, source):
    assert source_of(address) == source


def test_a_reset_of_the_numbers_gives_nobody_further_tries(limiter):
    """Any user with the tag monitoring may reset the statistics."""
    fail(limiter, HERE, 3)
    limiter.reset()
    assert limiter.by_address() == {}
    assert not limiter.may_try(HERE)


def test_not_all_addresses_are_remembered(limiter):
    for number in range(ADDRESSES_MAX + 5):
        fail(limiter, f"10.{number >> 16}.{number >> 8 & 255}.{number & 255}")
    assert len(limiter.by_address()) == ADDRESSES_MAX


class SlowChain:
    """A slow directory that knows the password `right`."""

    def __init__(self):
        self.may_answer, self.asked = asyncio.Event(), 0

    async def authenticate(self, attempt):
        self.asked += 1
        await self.may_answer.wait()
        return Identity(attempt.name) if attempt.password == "right" else None


async def log_in_all(clock, passwords):
    """Return how many simultaneous logins reach the directory, and how many succeed."""
    chain = SlowChain()
    config = Config(authentication=AuthenticationSettings(failures_per_minute=3))
    access = AccessControl(config, clock, internal=None, chain=chain)
    logins = [
        asyncio.ensure_future(access.log_in(LoginAttempt("anna", one, HERE))) for one in passwords
    ]
    while chain.asked < 3:
        await asyncio.sleep(0)
    chain.may_answer.set()
    return await asyncio.gather(*logins), chain.asked


async def test_many_guesses_at_once_are_not_all_looked_at(clock):
    _, asked = await log_in_all(clock, ["wrong"] * 50)
    assert asked == 3


async def test_many_clients_that_come_back_at_once_are_all_let_in(clock):
    let_in, _ = await log_in_all(clock, ["right"] * 50)
    assert all(let_in)
