"""Each health check of one node passes, and fails when what it looks at is not in order."""

import asyncio
import json
import urllib.error
from contextlib import contextmanager

import pytest

from leveret.mgmt.api import health
from leveret.storage.disk.disk import StoreError
from tests.mgmt.ctl_command import Ctl
from tests.mgmt.node_in_process import NodeInProcess
from tests.mgmt.served_node import ServedNode

CHECKS = {
    "healthchecks/node": "node_health_check",
    "health/checks/alarms": "check_alarms",
    "health/checks/local-alarms": "check_local_alarms",
    "health/checks/virtual-hosts": "check_virtual_hosts",
    "health/checks/is-in-service": "check_running",
    "health/checks/node-is-quorum-critical": "check_if_node_is_quorum_critical",
    "health/checks/node-is-mirror-sync-critical": "check_if_node_is_mirror_sync_critical",
}
OTHERS = (
    "ping", "check_port_connectivity", "check_if_any_deprecated_features_are_used",
    "check_if_cluster_has_classic_queue_mirroring_policy", "check_certificate_expiration",
)  # fmt: skip
NODE_IN_ALARM = "resource alarm(s) in effect:[{resource_limit,memory,test@localhost}]"


@pytest.fixture(scope="module")
def own(tmp_path_factory):
    """A node that is in order only while no test says otherwise."""
    served = ServedNode(tmp_path_factory.mktemp("own"))
    yield served
    served.stop()


@pytest.fixture
def ctl(own):
    return Ctl(own)


@contextmanager
def alarm(ctl):
    ctl("set_vm_memory_high_watermark", "absolute", "1")
    try:
        yield
    finally:
        ctl("set_vm_memory_high_watermark", "0.4")


@pytest.mark.parametrize("path", CHECKS)
def test_all_is_in_order(own, ctl, path):
    answer = own.request("GET", path)
    assert (answer.status, answer.body["status"]) == (200, "ok")
    ctl(CHECKS[path])


@pytest.mark.parametrize("command", OTHERS)
def test_what_only_the_command_line_has_is_in_order(ctl, command):
    ctl(command)


@pytest.mark.parametrize(
    ("path", "reason", "code"),
    [
        ("healthchecks/node", NODE_IN_ALARM, 70),
        ("healthchecks/node/test@localhost", NODE_IN_ALARM, None),
        ("health/checks/alarms", "There are alarms in effect in the cluster", 69),
        ("health/checks/local-alarms", "There are alarms in effect in the node", 69),
    ],
)
def test_an_alarm(own, ctl, path, reason, code):
    with alarm(ctl):
        answer = own.request("GET", path)
        assert (answer.status, answer.body["status"]) == (503, "failed")
        assert answer.body["reason"] == reason
        if code is not None:
            assert ctl.fails(CHECKS[path])[0] == code
    assert own.request("GET", path).status == 200


def test_the_old_check_says_which_alarm(ctl):
    with alarm(ctl):
        _, errors = ctl.fails("node_health_check")
    assert f"Error: health check failed. Message: {NODE_IN_ALARM}" in errors


def test_the_message_of_the_aliveness_test_does_not_come_back(own):
    assert own.request("GET", "aliveness-test/%2F").status == 200
    policy = {"pattern": "^aliveness-test$", "definition": {"max-length": 0}}
    own.put("policies/%2F/nothing", policy)
    answer = own.request("GET", "aliveness-test/%2F")
    own.delete("policies/%2F/nothing")
    expected = {"status": "failed", "reason": "aliveness-test queue is empty"}
    assert (answer.status, answer.body) == (503, expected)


def test_a_node_under_maintenance_is_not_in_service(own, ctl):
    ctl("drain")
    try:
        answer = own.request("GET", "health/checks/is-in-service")
        reason = "this rabbit node is not currently available to serve"
        assert (answer.status, answer.body) == (503, {"status": "failed", "reason": reason})
    finally:
        ctl("revive")


def test_a_port_cannot_be_reached(ctl):
    assert ctl.fails("check_port_connectivity", "--address", "192.0.2.1")[0] == 69


def test_a_stopped_broker(own, ctl):
    ctl("stop_app")
    try:
        assert own.request("GET", "health/checks/virtual-hosts").status == 503
        ctl("ping")
        assert ctl.fails("check_running")[0] == 69
        assert ctl.fails("check_virtual_hosts")[0] != 0
    finally:
        ctl("start_app")


def test_a_policy_mirrors_queues(own, ctl):
    check = "check_if_cluster_has_classic_queue_mirroring_policy"
    policy = {"pattern": "^m", "definition": {"ha-mode": "all"}}
    own.put("policies/%2F/one", policy)
    try:
        assert ctl.fails(check) == (69, "Policy one enables classic queue mirroring\n")
        code, shown = ctl.fails(check, "--formatter", "json")
        assert (code, [one["name"] for one in json.loads(shown)["policies"]]) == (69, ["one"])
    finally:
        own.delete("policies/%2F/one")
    ctl(check)


async def refused_by(node, check):
    """The answer of a check that fails, as a status and what is in the body."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        await asyncio.to_thread(node.ask, check)
    return refused.value.code, json.loads(refused.value.read())


async def test_a_node_that_is_cut_off_from_others_is_in_a_partition(tmp_path, monkeypatch):
    async with NodeInProcess(tmp_path) as node:
        monkeypatch.setattr(health, "partitions", lambda _: ["a@host", "b@other.host"])
        reason = "cluster partition in effect: [a@host,'b@other.host']"
        expected = (503, {"status": "failed", "reason": reason})
        assert await refused_by(node, "api/healthchecks/node") == expected


async def test_no_virtual_host_is_up_when_the_store_has_failed(tmp_path):
    async with NodeInProcess(tmp_path) as node:
        check = "api/health/checks/virtual-hosts"
        assert json.loads(await asyncio.to_thread(node.ask, check)) == {"status": "ok"}
        node.node.broker.failure.set_result(StoreError("the disk is gone"))
        reason = "Some virtual hosts are down"
        expected = (503, {"status": "failed", "reason": reason, "virtual-hosts": ["/"]})
        assert await refused_by(node, check) == expected
