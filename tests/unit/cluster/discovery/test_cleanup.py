"""Which nodes node clean-up removes."""

import pytest

from leveret.broker.config.formation_settings import FormationSettings
from leveret.cluster.discovery.cleanup import INTERVAL_SECONDS, CleanUp
from tests.unit.cluster.discovery.fakes import FakeDiscovery

MEMBERS, RUNNING = ("a@host", "b@host", "c@host"), ("a@host",)
REMOVING = FormationSettings(cleanup_interval_s=5, cleanup_only_logs=False)


@pytest.mark.parametrize(
    ("interval_s", "only_logs", "expected_s"),
    [(None, None, None), (5, None, 5), (None, True, INTERVAL_SECONDS), (7, False, 7)],
)
def test_either_setting_switches_it_on(interval_s, only_logs, expected_s):
    settings = FormationSettings(cleanup_interval_s=interval_s, cleanup_only_logs=only_logs)
    assert CleanUp(settings, FakeDiscovery()).interval_s == expected_s


async def test_nodes_that_are_down_and_not_listed_are_removed():
    cleanup = CleanUp(REMOVING, FakeDiscovery("a@host", "b@host"))
    assert await cleanup.step(MEMBERS, RUNNING) == ("c@host",)


async def test_they_are_only_logged_by_default(caplog):
    cleanup = CleanUp(FormationSettings(cleanup_interval_s=5), FakeDiscovery("a@host", "b@host"))
    assert await cleanup.step(MEMBERS, RUNNING) == ()
    assert "node c@host is down and not listed by fake" in caplog.text


async def test_the_backend_is_not_asked_while_all_members_run():
    discovery = FakeDiscovery()
    assert await CleanUp(REMOVING, discovery).step(MEMBERS, MEMBERS) == ()
    assert discovery.lists == 0


async def test_a_backend_that_fails_removes_no_node(caplog):
    cleanup = CleanUp(REMOVING, FakeDiscovery(answers=["it answered 500"]))
    assert await cleanup.step(MEMBERS, RUNNING) == ()
    assert "node clean-up failed to list the nodes: it answered 500" in caplog.messages


async def test_an_empty_list_removes_no_node():
    assert await CleanUp(REMOVING, FakeDiscovery()).step(MEMBERS, RUNNING) == ()
