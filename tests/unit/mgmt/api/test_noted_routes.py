"""Every request that changes something reaches the audit: by a declaration, an act or a note."""

import inspect
import re

import pytest

from leveret.mgmt.api.resources import RESOURCES
from leveret.mgmt.api.routes import ROUTES

TELLS = re.compile(
    r"\b(call\.declare|call\.note|acting|note|_note|_note_removal|_import|_grow|_shrink"
    r"|_end_waiting)\("
)
"""What tells the audit, and the functions of a resource that call that."""
CHANGES_NOTHING = {
    "/queues/{vhost}/{queue}/messages/count": "reads",
    "/queues/{vhost}/{queue}/messages/targets": "reads",
    "/queues/{vhost}/{queue}/plan": "reads",
    "/exchanges/{vhost}/{exchange}/plan": "reads",
    "/trace-analysis/report/link": "reads",
    "/login": "a login has lines of its own",
    "/node/check-password": "a login has lines of its own",
    "/feature-flags/{name}/enable": "all are enabled",
    "/vhosts/{vhost}/start/{node}": "vhosts always run",
    "/node/collect-garbage": "the process itself",
    "/node/rotate-logs": "the process itself",
    "/queues/{vhost}/{queue}/reclaim": "the process itself",
}


@pytest.mark.parametrize("route", [
    one for one in ROUTES if one.method != "GET" and one.path not in CHANGES_NOTHING
], ids=lambda one: f"{one.method} {one.path}")  # fmt: skip
def test_a_request_that_changes_something_is_told(route):
    assert TELLS.search(inspect.getsource(route.handler))


def test_the_exceptions_exist():
    assert RESOURCES
    assert set(CHANGES_NOTHING) <= {one.path for one in ROUTES}
