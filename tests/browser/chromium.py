"""Starts a headless Chromium with chromedriver."""

import shutil

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from tests.patience import PATIENCE_SECONDS

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
DRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
    "--disable-dev-shm-usage", "--force-device-scale-factor=1",
)  # fmt: skip


def is_installed():
    return CHROMIUM is not None and DRIVER is not None


def wait_until_loaded(driver):
    """Wait until all of a page is there: on a busy machine the driver may be early."""
    complete = "return document.readyState === 'complete'"
    WebDriverWait(driver, PATIENCE_SECONDS).until(lambda one: one.execute_script(complete))


def start_chromium(directory):
    """Return selenium's driver. directory: for the user's data, which must be empty."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM
    for flag in (*FLAGS, f"--user-data-dir={directory}"):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service(DRIVER))
    driver.set_page_load_timeout(PATIENCE_SECONDS)
    return driver
