"""What the HTTP API of a node answers that was suspended, before and after it knows its place."""

import asyncio
import urllib.error
from types import SimpleNamespace

import pytest

from leveret.broker.runtime.turns import NEVER
from leveret.cluster.partitions.suspension import Suspension
from tests.mgmt.node_in_process import NodeInProcess
from tests.patience import until

TICK_TIME_S = 60
HELD = ("api/whoami", "api/overview", "api/queues", "api/aliveness-test/%2F", "api/nodes")
AT_ONCE = (
    "api/health/checks/alarms", "api/health/checks/local-alarms", "api/healthchecks/node",
    "api/health/checks/virtual-hosts", "api/health/checks/port-listener/{port}", "metrics",
)  # fmt: skip


class Suspended:
    """A node whose others tell it its place when the test says so."""

    def __init__(self, one):
        self.node = one.node
        self.ask = one.ask
        self.port = one.http_port
        self.is_known = False
        self._turns = self.node.broker.services.turns
        self._suspension = Suspension(self._turns, TICK_TIME_S, lambda: None, lambda: self.is_known)
        name = self.node.name
        self.node.cluster = SimpleNamespace(
            suspension=self._suspension, running=(name,), members={name: True}, partitions=(),
            late_confirms_count=0, features={}, links=SimpleNamespace(peers={}),
        )  # fmt: skip
        self._turns.overdue_at = 0

    def get(self, path):
        """Ask from a thread."""
        return asyncio.get_running_loop().run_in_executor(None, self.ask, path)

    async def finds_out(self):
        """Wait until the node knows that it does not know its place."""
        await until(lambda: self._turns.is_held)

    def learns_its_place(self):
        self.is_known = True
        self._suspension.tick()
        self._turns.overdue_at = NEVER


@pytest.fixture
async def suspended(tmp_path):
    async with NodeInProcess(tmp_path) as node:
        yield Suspended(node)


@pytest.mark.parametrize("path", HELD)
async def test_what_may_be_out_of_date_waits(suspended, path):
    answer = suspended.get(path)
    await suspended.finds_out()
    # A later request is answered, so this one waits.
    await suspended.get("api/health/checks/alarms")
    assert not answer.done()
    suspended.learns_its_place()
    assert await answer


@pytest.mark.parametrize("path", AT_ONCE)
async def test_what_the_node_knows_of_itself_is_answered_at_once(suspended, path):
    assert await suspended.get(path.format(port=suspended.port))


async def test_the_node_is_in_service_when_it_knows_its_place(suspended):
    with pytest.raises(urllib.error.HTTPError, match="503"):
        await suspended.get("api/health/checks/is-in-service")
    answer = suspended.get("api/whoami")
    await suspended.finds_out()
    suspended.learns_its_place()
    await answer
    assert await suspended.get("api/health/checks/is-in-service")
