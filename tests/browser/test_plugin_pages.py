"""A page that a plugin adds to those of management, and one that cannot be loaded."""

import asyncio
import threading

import pytest

from leveret.broker.plugins.known_plugins import PLUGINS
from leveret.broker.plugins.plugin import INTERFACE, Plugin
from tests.mgmt.node_in_process import NodeInProcess
from tests.patience import PATIENCE_SECONDS

PAGE = """
import {h} from "../../dom.js";
import {get} from "../../api.js";
import {addPage} from "../../plugin_pages.js";

addPage("greetings", "Greetings", () => {
  const said = h("p", {});
  const refresh = async () => { said.textContent = `hello ${(await get("whoami")).name}`; };
  return {title: "Greetings", element: said, refresh};
});
"""


@pytest.fixture
def opened_node(tmp_path, monkeypatch):
    (tmp_path / "greetings.js").write_text(PAGE)
    (tmp_path / "broken.js").write_text("import {nothing} from '../../dom.js';")
    pages = {name: tmp_path / f"{name}.js" for name in ("greetings", "broken")}
    greeter = Plugin(
        name="greeter", description="", version="1", interface=INTERFACE, management_pages=pages
    )
    monkeypatch.setitem(vars(PLUGINS), "_installed", {"greeter": greeter})
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start():
        return await NodeInProcess(tmp_path, plugins=("greeter",)).__aenter__()

    node = asyncio.run_coroutine_threadsafe(start(), loop).result(PATIENCE_SECONDS)
    yield node
    asyncio.run_coroutine_threadsafe(node.__aexit__(), loop).result(PATIENCE_SECONDS)
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()


def test_a_plugin_has_a_page(browser):
    browser.see("Page broken of plugin greeter cannot be loaded")
    browser.follow("Greetings")
    browser.see_title("Greetings")
    browser.see("hello guest")
