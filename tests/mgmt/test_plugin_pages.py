"""What plugins add to management: routes of the API, and files of pages, while they run."""

import asyncio
import urllib.error

import msgspec
import pytest

from leveret.broker.plugins.known_plugins import PLUGINS
from leveret.broker.plugins.plugin import INTERFACE, Plugin
from leveret.mgmt.api.routes import ROUTES
from tests.installed_package import install_in
from tests.mgmt.node_in_process import NodeInProcess

SOURCE = """
from pathlib import Path

from leveret.broker.plugins.plugin import Plugin

PAGES = Path(__file__).parent / "pages"
PLUGIN = Plugin(
    name="greeter", description="", version="1.0", interface=1,
    management_pages={"greetings": PAGES / "greetings.js"},
    api_routes={"greetings": "greeter_routes"},
)
"""
ROUTES_SOURCE = """
from leveret.mgmt.api.routes import route


@route("GET", "/greetings")
async def greetings(call):
    "The greetings."
    return ["hello"]
"""


@pytest.fixture
def _installed(monkeypatch, tmp_path):
    package = tmp_path / "package"
    package.mkdir()
    before = list(ROUTES)
    install_in(monkeypatch, package, [PLUGINS], "greeter", SOURCE, "PLUGIN")
    (package / "greeter_routes.py").write_text(ROUTES_SOURCE)
    pages = package / "pages"
    pages.mkdir()
    (pages / "greetings.js").write_text("// greetings")
    (pages / "secret.py").write_text("PASSWORD = 1")
    yield
    ROUTES[:] = before


@pytest.mark.usefixtures("_installed")
async def test_pages_and_routes_are_served_while_the_plugin_runs(tmp_path):
    async with NodeInProcess(tmp_path, plugins=("greeter",)) as node:

        async def ask(path):
            return await asyncio.to_thread(node.ask, path)

        async def status(path):
            with pytest.raises(urllib.error.HTTPError) as failed:
                await ask(path)
            return failed.value.code

        _, page = msgspec.json.decode(await ask("api/extensions"))
        assert page == {
            "javascript": "plugins/greeter/greetings.js", "plugin": "greeter", "page": "greetings",
        }  # fmt: skip
        assert await ask(f"ui/{page['javascript']}") == b"// greetings"
        assert await ask("api/greetings") == b'["hello"]'
        for name in ("secret.py", "missing.js", "..%2Fgreeter_routes.py", ".js"):
            assert await status(f"ui/plugins/greeter/{name}") == 404
        await node.node.facade.plugins.change([])
        assert len(msgspec.json.decode(await ask("api/extensions"))) == 1
        assert await status(f"ui/{page['javascript']}") == 404
        assert await status("api/greetings") == 404


async def test_a_page_that_is_no_file_is_named(tmp_path, monkeypatch, caplog):
    pages = {"a": tmp_path / "missing.js", "b": "no_such_module:PAGE"}
    greeter = Plugin(
        name="greeter", description="", version="1", interface=INTERFACE, management_pages=pages
    )
    monkeypatch.setitem(vars(PLUGINS), "_installed", {"greeter": greeter})
    async with NodeInProcess(tmp_path, plugins=("greeter",)) as node:
        answer = await asyncio.to_thread(node.ask, "api/extensions")
    assert answer == b'[{"javascript":"dispatcher.js"}]'
    assert "plugin greeter: its page b cannot be loaded: ModuleNotFoundError" in caplog.text
    assert "plugin greeter: its page a cannot be loaded: TypeError" in caplog.text
