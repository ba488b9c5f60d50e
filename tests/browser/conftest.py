"""A node, and a Chromium that shows its pages."""

import itertools

import pytest

from tests.browser.browser import Browser
from tests.browser.chromium import is_installed, start_chromium
from tests.mgmt.served_node import ServedNode
from tests.ports import free_ports

SESSION_MINUTES = 30
# The pages load nothing from other servers and have no inline code.
CONFIGURATION = f"""
management.csp.policy = default-src 'self'; object-src 'none'
management.login_session_timeout = {SESSION_MINUTES}
"""
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    stream_port, mqtt_port = free_ports(2)
    listeners = (
        f"stream.listeners.tcp.default = 127.0.0.1:{stream_port}\n"
        f"mqtt.listeners.tcp.default = 127.0.0.1:{mqtt_port}"
    )
    served = ServedNode(tmp_path_factory.mktemp("node"), f"{CONFIGURATION}\n{listeners}")
    served.stream_port, served.mqtt_port = stream_port, mqtt_port
    yield served
    served.stop()


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    if not is_installed():
        pytest.skip("chromium and chromedriver are not installed")
    made = start_chromium(tmp_path_factory.mktemp("chromium"))
    yield made
    made.quit()


@pytest.fixture
def vhost(node):
    name = f"v{next(_numbers)}"
    assert node.put(f"vhosts/{name}").status == 201
    yield name
    node.delete(f"vhosts/{name}")


@pytest.fixture
def add_user(node, vhost):
    """Adds users with read permission in the virtual host, until the test ends."""
    added = []

    def add(name, tags):
        node.put(f"users/{name}", {"password": "secret", "tags": tags})
        node.put(f"permissions/{vhost}/{name}", {"configure": "", "write": "", "read": ".*"})
        added.append(name)
        return name

    yield add
    for name in added:
        node.delete(f"users/{name}")


@pytest.fixture
def opened_node(node):
    """The node whose pages the browser shows: tests of clusters choose one."""
    return node


@pytest.fixture
def browser(opened_node, driver):
    """A browser at the overview, logged in, with a desktop's window size."""
    driver.set_window_size(1280, 900)
    opened = Browser(driver, opened_node)
    opened.begin()
    yield opened
    assert opened.errors() == []
