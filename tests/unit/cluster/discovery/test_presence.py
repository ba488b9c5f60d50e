"""A registration is renewed at its interval, and removed at the end."""

import pytest

from leveret.cluster.discovery.presence import Presence
from tests.unit.cluster.discovery.fakes import FakeDiscovery, FakeRegistration, SleepByHand


@pytest.fixture
def calls():
    return []


async def test_a_registration_is_renewed_at_its_interval_until_the_stop(calls):
    sleep = SleepByHand(is_held=True)
    presence = Presence(FakeDiscovery(registration=FakeRegistration(calls)), "a@host", sleep)
    await presence.start()
    while not sleep.slept:
        await SleepByHand()(0)
    await sleep.let_go()
    await sleep.let_go()
    await presence.stop()
    assert calls == ["register", "renew", "renew", "unregister"]
    assert set(sleep.slept) == {10.0}


async def test_renewals_go_on_after_one_that_failed(calls, caplog):
    sleep = SleepByHand(is_held=True)
    registration = FakeRegistration(calls, failing=["renew", "unregister"])
    presence = Presence(FakeDiscovery(registration=registration), "a@host", sleep)
    await presence.start()
    while not sleep.slept:
        await SleepByHand()(0)
    await sleep.let_go()
    await sleep.let_go()
    await presence.stop()
    assert calls == ["register", "renew", "renew", "unregister"]
    assert "failed to renew the registration of a@host with fake" in caplog.text
    assert "node a@host stays registered with fake: the server is down" in caplog.messages


async def test_a_backend_without_a_registration_needs_nothing(calls):
    presence = Presence(FakeDiscovery(), "a@host")
    await presence.start()
    await presence.stop()
    assert calls == []
