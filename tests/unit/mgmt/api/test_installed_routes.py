"""An installed package adds routes to the HTTP API."""

import pytest

from leveret.mgmt.api.description.document import document
from leveret.mgmt.api.resources import RESOURCES, all_routes
from leveret.mgmt.api.routes import ROUTES
from tests.installed_package import install_in

GREETING = """
from leveret.mgmt.api.routes import route

@route("GET", "/greeting")
async def greet(call):
    return {"greeting": "hello"}
"""


@pytest.fixture(autouse=True)
def _routes_of_this_test():
    own = len(ROUTES)
    yield
    del ROUTES[own:]


async def test_a_package_adds_a_route_which_the_description_leaves_out(monkeypatch, tmp_path):
    install_in(monkeypatch, tmp_path, (RESOURCES,), "greeting", GREETING)
    added = all_routes()[-1]
    assert (added.method, added.path) == ("GET", "/greeting")
    assert await added.handler(None) == {"greeting": "hello"}
    assert "/greeting" not in document("", with_control=True)["paths"]
