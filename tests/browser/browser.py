"""Simulates a user of the web pages: finds controls by their labels, and waits for conditions."""

import base64
import time
from contextlib import contextmanager
from functools import partial
from urllib.parse import quote

from selenium.common.exceptions import (
    NoSuchElementException,
    StaleElementReferenceException,
    WebDriverException,
)
from selenium.webdriver.common.by import By

from tests.browser.chromium import wait_until_loaded
from tests.patience import PATIENCE_SECONDS

NETWORK_CHANGED = "ERR_NETWORK_CHANGED"
PAUSE_SECONDS, PAUSE_SECONDS_MAX = 0.05, 0.4
"""Between two looks at a page. Each takes 10 ms of a processor, in four processes: more of them
take it from the page that is waited for.
"""
BEGIN = """
localStorage.clear();
localStorage.setItem("leveret.refresh", "1");
localStorage.setItem(`leveret.login ${arguments[1]}`,
  JSON.stringify({credentials: arguments[0], until: Date.now() + 600_000}));
"""
# The search runs inside the page: one request instead of one for each element.
CONTROL = """
const [inside, name] = arguments;
const label = [...(inside ?? document).querySelectorAll("label")].find((one) =>
  one.checkVisibility() && one.textContent.split(" (")[0].trim() === name);
return label?.control ?? null;
"""
BUTTON = """
const [inside, name] = arguments;
return [...(inside ?? document).querySelectorAll("button")].find((one) => one.checkVisibility()
  && [one.textContent.trim(), one.getAttribute("aria-label")].includes(name)) ?? null;
"""
# A click is made at a place. While it is made, a refresh may have moved the element from there.
NO_CLICK = "document.wasClicked = false;"
AWAIT_CLICK = """
arguments[0].scrollIntoView({block: "center"});
arguments[0].addEventListener("click", () => { document.wasClicked = true; },
  {capture: true, once: true});
"""
# In another document if the click has loaded one.
WAS_CLICKED = "return document.wasClicked !== false;"
# What a user reads, by line. Selenium's own text asks for the style of each element above another.
TEXT = """
const lines = arguments[0].innerText.split("\\n").map((one) => one.replace(/\\s+/g, " ").trim());
return lines.filter((one) => one).join("\\n");
"""
OPTION = "return [...arguments[0].options].find((one) => one.value === arguments[1]) ?? null"


class Browser:
    """A browser session. driver: selenium's. node: the node whose pages are shown."""

    def __init__(self, driver, node, prefix="/"):
        self.driver = driver
        self.node = node
        self.prefix = prefix
        self.url = f"http://127.0.0.1:{node.http_port}{prefix}"
        self._console = []
        self._panels = {}

    def begin(self, name="guest", password="guest"):
        """Open the overview, logged in without using the login form."""
        credentials = base64.b64encode(f"{name}:{password}".encode()).decode()
        self.open(f"{self.url}ui/mark.svg")
        # Discard console errors of the previous page, whose user may have been deleted.
        self._console.clear()
        self.driver.execute_script(BEGIN, credentials, self.prefix)
        self.open(self.url)
        self.see_title("Overview")

    def open(self, address):
        """Load a page by its whole address."""
        self._load(lambda: self.driver.get(address))

    def reload(self):
        """Load the page again."""
        self._load(self.driver.refresh)

    def _load(self, load):
        """Load a page, again if Chromium has ended its requests meanwhile, as it does whenever a
        network interface of the machine comes or goes: tests beside this one make some.
        """
        while self._was_interrupted(load):
            continue

    def _was_interrupted(self, load):
        try:
            load()
        except WebDriverException as error:
            if NETWORK_CHANGED not in str(error):
                raise
            return True
        wait_until_loaded(self.driver)
        logged = self.driver.get_log("browser")
        self._console += logged
        return any(NETWORK_CHANGED in entry["message"] for entry in logged)

    def log_in(self, name, password):
        """Log in with the form."""
        self.type("Username", name)
        self.type("Password", password)
        self.press("Login")

    def go(self, *parts):
        """Go to a page by its address."""
        self.open(self.url + "#/" + "/".join(quote(part, safe="") for part in parts))

    # Reading

    def wait(self, condition, what):
        """Return the condition's result as soon as it is true."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        problem, pause_s = None, PAUSE_SECONDS
        while time.monotonic() < deadline:
            try:
                found = condition()
                if found:
                    return found
            except (StaleElementReferenceException, NoSuchElementException) as error:
                problem = error
            except WebDriverException as error:
                problem = error
            time.sleep(pause_s)
            pause_s = min(2 * pause_s, PAUSE_SECONDS_MAX)
        console = self.driver.get_log("browser")
        raise AssertionError(f"not seen: {what} ({problem})\n{self.text()[:2000]}\n{console}")

    def text(self):
        """All text of the page."""
        return self.text_of(self.driver.find_element(By.TAG_NAME, "body"))

    def text_of(self, element):
        """The text of a part of the page that is to be seen."""
        return self.driver.execute_script(TEXT, element)

    def heading(self):
        """The title of the page."""
        return self.driver.find_element(By.TAG_NAME, "h1").text

    def see(self, text):
        self.wait(lambda: text in self.text(), text)

    def see_not(self, text):
        self.wait(lambda: text not in self.text(), f"that there is no {text}")

    def see_title(self, title):
        self.wait(lambda: self.heading() == title, f"heading {title}")

    def see_in(self, panel, text):
        """Wait for a text in a section of the page, or in the one that takes its place."""
        self.wait(lambda: text in self._text_of_panel(panel), f"{text} in a panel")

    def _text_of_panel(self, panel):
        """A page whose refresh has failed is built again, with other elements."""
        try:
            return self.text_of(panel)
        except StaleElementReferenceException:
            if panel.id not in self._panels:
                raise
            return self.text_of(self.panel(self._panels[panel.id]))

    # Actions

    @contextmanager
    def phone(self, width=360):
        """Use the window size of a phone. width: pixels."""
        metrics = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": True}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
        try:
            yield
        finally:
            self.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})

    def control(self, label, inside=None):
        """Return the control of a label."""
        return self._found(CONTROL, inside, label, f"a control labelled {label}")

    def _found(self, script, inside, name, what):
        return self.wait(lambda: self.driver.execute_script(script, inside, name), what)

    def type(self, label, text, inside=None):
        control = self.control(label, inside)
        control.clear()
        control.send_keys(text)

    def choose(self, label, value, inside=None):
        control = self.control(label, inside)
        self._found(OPTION, control, value, f"the choice {value}").click()

    def check(self, label, inside=None):
        find = partial(self.driver.execute_script, CONTROL, inside, label)
        self.click(find, f"a control labelled {label}")

    def button(self, name, inside=None):
        return self._found(BUTTON, inside, name, f"a button {name}")

    def press(self, name, inside=None):
        find = partial(self.driver.execute_script, BUTTON, inside, name)
        self.click(find, f"a button {name}")

    def panel(self, name):
        """Return a section of the page by its heading, expanded if it was collapsed."""
        found = self.wait(
            lambda: self.driver.find_element(By.CSS_SELECTOR, f'section[aria-label="{name}"]'), name
        )
        self._panels[found.id] = name
        for fold in found.find_elements(By.CSS_SELECTOR, "details:not([open]) > summary"):
            if fold.find_elements(By.TAG_NAME, "h2"):
                self.click(lambda fold=fold: fold, f"the title {name}")
        return found

    def dialog(self):
        return self.wait(
            lambda: self.driver.find_element(By.CSS_SELECTOR, "dialog[open]"), "a dialog"
        )

    def confirm(self, name):
        """Confirm the dialog."""
        self.press(name, inside=self.dialog())

    def follow(self, text):
        self.click(lambda: self.driver.find_element(By.LINK_TEXT, text), f"a link {text}")

    def click(self, find, what):
        """Click on the element that `find` returns, until that element gets a click."""
        self.driver.execute_script(NO_CLICK)
        self.wait(lambda: self._is_clicked(find), what)

    def _is_clicked(self, find):
        if self.driver.execute_script(WAS_CLICKED):
            return True
        element = find()
        if element is None:
            return False
        self.driver.execute_script(AWAIT_CLICK, element)
        element.click()
        return self.driver.execute_script(WAS_CLICKED)

    def errors(self):
        """Return console errors of the page, except for responses that the test expects."""
        return [
            entry["message"]
            for entry in [*self._console, *self.driver.get_log("browser")]
            if entry["level"] == "SEVERE" and "Failed to load resource" not in entry["message"]
        ]
