"""@stomp/stompjs over a WebSocket, for Node and in a page of Chromium. npm installs it."""

import json
import os
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest

from tests.browser.chromium import is_installed, start_chromium
from tests.clients.stomp_node import serve_stomp
from tests.patience import PATIENCE_SECONDS

SCRIPT = Path(__file__).parent / "node" / "check_stompjs.js"
INSTALL_SECONDS_MAX = 60
PAGE = """
const [url, done] = arguments;
const client = new StompJs.Client({
  brokerURL: url, connectHeaders: {login: "guest", passcode: "guest", host: "/"},
  onStompError: (frame) => done(frame.body),
  onConnect: () => {
    client.subscribe("/topic/of-a-page", (message) => {
      const body = message.body;
      client.onWebSocketClose = (event) => done([body, event.code, event.wasClean]);
      client.deactivate();
    });
    client.publish({destination: "/topic/of-a-page", body: "from a page"});
  },
});
client.activate();
"""

pytestmark = pytest.mark.timeout(INSTALL_SECONDS_MAX + PATIENCE_SECONDS + 10)


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    """A directory with the library in it."""
    for program in ("node", "npm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is missing")
    folder = tmp_path_factory.mktemp("node")
    command = ["npm", "install", "--prefix", folder, "--no-audit", "--no-fund"]
    try:
        subprocess.run(
            [*command, "@stomp/stompjs", "ws"],
            capture_output=True, text=True, timeout=INSTALL_SECONDS_MAX, check=True,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        pytest.skip(f"npm took more than {INSTALL_SECONDS_MAX} s: is there a network?")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"npm cannot install @stomp/stompjs: {error.stderr}")
    return folder / "node_modules"


@pytest.fixture(scope="module")
def address():
    yield from serve_stomp()


def test_a_program_for_node(modules, address):
    run = subprocess.run(
        ["node", SCRIPT, address.url],
        env=os.environ | {"NODE_PATH": str(modules)},
        capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout) == {
        "version": "1.2",
        "heartBeat": "5000,5000",
        "receipt": True,
        "received": [
            {"own": "a:b", "body": list("héllo".encode())},
            {"own": None, "body": [0, 255]},
        ],
        "close": [1000, "STOMP died", True],
    }


@pytest.fixture
def site(modules):
    """A web server with the directory: a page of another origin may not connect to this machine."""
    handler = partial(SimpleHTTPRequestHandler, directory=modules)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_page(modules, site, address, tmp_path):
    if not is_installed():
        pytest.skip("chromium and chromedriver are not installed")
    driver = start_chromium(tmp_path)
    try:
        driver.get(f"{site}/@stomp/stompjs/bundles/")
        driver.execute_script((modules / "@stomp/stompjs/bundles/stomp.umd.min.js").read_text())
        driver.set_script_timeout(PATIENCE_SECONDS)
        assert driver.execute_async_script(PAGE, address.url) == ["from a page", 1000, True]
    finally:
        driver.quit()
