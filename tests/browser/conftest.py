"""A node, and a Chromium that shows its pages."""

import itertools
import shutil

import pytest
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from tests.browser.browser import Browser
from tests.mgmt.served_node import ServedNode

SESSION_MINUTES = 30
# The pages load nothing from other servers and have no inline code.
CONFIGURATION = f"""
management.csp.policy = default-src 'self'; object-src 'none'
management.login_session_timeout = {SESSION_MINUTES}
"""
_numbers = itertools.count(1)
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--force-device-scale-factor=1",
)  # fmt: skip


@pytest.fixture(scope="session")
def node(tmp_path_factory):
    served = ServedNode(tmp_path_factory.mktemp("node"), CONFIGURATION)
    yield served
    served.stop()


@pytest.fixture(scope="session")
def driver(tmp_path_factory):
    if CHROMIUM is None or DRIVER is None:
        pytest.skip("chromium and chromedriver are not installed")
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={tmp_path_factory.mktemp('chromium')}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    made = webdriver.Chrome(options=options, service=Service(DRIVER))
    made.set_page_load_timeout(20)
    yield made
    made.quit()


@pytest.fixture
def vhost(node):
    name = f"v{next(_numbers)}"
    assert node.put(f"vhosts/{name}").status == 201
    yield name
    node.delete(f"vhosts/{name}")


@pytest.fixture
def browser(node, driver):
    """A browser at the overview, logged in, with a desktop's window size."""
    driver.set_window_size(1280, 900)
    opened = Browser(driver, node)
    opened.begin()
    yield opened
    assert opened.errors() == []
