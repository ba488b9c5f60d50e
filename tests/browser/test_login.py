"""Login, pages by user tag, and browser storage."""

import pytest
from selenium.webdriver.common.by import By

from tests.browser.conftest import SESSION_MINUTES

# Like a browser that blocks all cookies.
NO_STORAGE = """
Object.defineProperty(window, "localStorage", {get() {
  throw new DOMException("Access is denied for this document.", "SecurityError");
}});
"""
REQUESTS = "return performance.getEntriesByType('resource').length"
HIDE = """
Object.defineProperty(document, "hidden", {get: () => arguments[0], configurable: true});
document.dispatchEvent(new Event("visibilitychange"));
"""


def navigation(browser):
    return [
        one.text for one in browser.driver.find_elements(By.CSS_SELECTOR, "#nav a, .tabs a")
    ]  # fmt: skip


def test_a_wrong_password_is_told_and_the_right_one_works(browser):
    browser.press("Log out")
    browser.log_in("guest", "wrong")
    browser.see("Login failed")
    browser.log_in("guest", "guest")
    browser.see_title("Overview")


def test_any_name_and_password_can_log_in(browser, node):
    node.put("users/Zo%C3%AB%3A%3F", {"password": "ünicode: ☃", "tags": "management"})
    node.put("users/Zoe", {"password": "snowman: ☃ é", "tags": "management"})
    browser.press("Log out")
    browser.log_in("Zoe", "snowman: ☃ é")
    browser.see_title("Overview")
    node.delete("users/Zoe")
    node.delete("users/Zo%C3%AB%3A%3F")


def test_a_user_without_tags_is_told_why_not(browser, add_user):
    add_user("nobody", "")
    browser.press("Log out")
    browser.log_in("nobody", "secret")
    browser.see("Not management user")


def test_a_browser_that_keeps_nothing_can_log_in(browser):
    command = "Page.addScriptToEvaluateOnNewDocument"
    script = browser.driver.execute_cdp_cmd(command, {"source": NO_STORAGE})["identifier"]
    try:
        browser.open("about:blank")
        browser.open(browser.url)
        browser.log_in("guest", "guest")
        browser.see_title("Overview")
        browser.press("Use dark colours")
        browser.follow("Queues")
        browser.see_title("Queues")
    finally:
        browser.driver.execute_cdp_cmd(
            "Page.removeScriptToEvaluateOnNewDocument", {"identifier": script}
        )
        browser.open("about:blank")


def test_a_login_that_ends_leads_back_to_the_login(browser, node, add_user):
    add_user("leaving", "monitoring")
    browser.begin("leaving", "secret")
    node.delete("users/leaving")
    browser.see("Logged out")
    browser.control("Username")


@pytest.mark.parametrize(
    ("tags", "admin"),
    [
        ("management", None),
        ("policymaker", ["Policies", "Operator policies", "Limits", "Feature flags",
                         "Federation upstreams", "Federation upstream sets"]),
        ("monitoring", ["Virtual hosts", "Policies", "Operator policies", "Limits",
                        "Feature flags", "MQTT", "Shovels", "Federation status", "Standby",
                        "Audit"]),
    ],
)  # fmt: skip
def test_users_see_what_their_tags_allow_and_no_errors(browser, node, vhost, add_user, tags, admin):
    node.put(f"queues/{vhost}/visible", {"durable": True})
    add_user("lesser", tags)
    node.put("permissions/%2F/lesser", {"configure": "", "write": "", "read": ""})
    browser.begin("lesser", "secret")
    assert ("Admin" in navigation(browser)) == (admin is not None)
    browser.see("Ports and contexts" if tags == "monitoring" else "Queued messages")
    assert ("Ports and contexts" in browser.text()) == (tags == "monitoring")
    for page in ("Connections", "Channels", "Exchanges", "Queues", "Bindings"):
        browser.follow(page)
        browser.see_title(page)
    if admin is not None:
        browser.follow("Admin")
        browser.wait(lambda: navigation(browser)[-len(admin) :] == admin, "the tabs")
        for page in admin:
            browser.follow(page)
            browser.see_title(page)
    browser.go("queues", vhost, "visible")
    browser.see_title("Queue visible")
    browser.follow("Consumers")
    browser.see("No consumers.")
    assert [entry["message"] for entry in browser.driver.get_log("browser")] == []


def test_a_page_that_is_not_for_the_user_says_so_once(browser, add_user):
    browser.begin(add_user("lesser", "management"), "secret")
    browser.go("admin", "users")
    browser.see_title("Access refused")
    browser.go("queues", "/", "elsewhere")
    browser.see("Access refused: User not authorised to access virtual host")


def test_nothing_is_asked_for_while_the_tab_is_hidden(browser, node):
    script = browser.driver.execute_script
    before = script(REQUESTS)
    browser.choose("Refresh", "5")
    browser.choose("Refresh", "1")
    browser.wait(lambda: script(REQUESTS) > before, "that it updates itself")
    script(HIDE, True)
    script("performance.clearResourceTimings(); window.hiddenAt = performance.now()")
    browser.wait(lambda: script("return performance.now() - hiddenAt > 2500"), "some time")
    begun = "performance.getEntriesByType('resource').filter((one) => one.startTime > hiddenAt)"
    assert script(f"return {begun}.length") == 0
    script(HIDE, False)
    browser.wait(lambda: script(f"return {begun}.length"), "that it catches up")


@pytest.fixture
def tab(browser):
    """Opens the pages in a second tab."""
    first = browser.driver.current_window_handle
    opened = []

    def open_at(address):
        browser.driver.switch_to.new_window("tab")
        opened.append(browser.driver.current_window_handle)
        browser.open(browser.url + address)
        return opened[-1]

    yield open_at
    for handle in opened:
        browser.driver.switch_to.window(handle)
        browser.driver.close()
    browser.driver.switch_to.window(first)


def test_one_login_and_one_logout_are_for_all_tabs(browser, tab):
    first = browser.driver.current_window_handle
    second = tab("#/queues")
    browser.see_title("Queues")
    browser.press("Log out")
    browser.control("Username")
    browser.driver.switch_to.window(first)
    browser.control("Username")
    browser.log_in("guest", "guest")
    browser.see_title("Overview")
    browser.driver.switch_to.window(second)
    browser.see_title("Queues")


def test_an_address_that_was_sent_asks_for_the_login_and_then_shows_its_page(browser, node, vhost):
    node.put(f"queues/{vhost}/sent", {"durable": True})
    browser.press("Log out")
    browser.open("about:blank")
    browser.open(f"{browser.url}#/queues/{vhost}/sent")
    browser.log_in("guest", "guest")
    browser.see_title("Queue sent")
    until = "return JSON.parse(localStorage.getItem('leveret.login /')).until - Date.now()"
    assert 0 < browser.driver.execute_script(until) <= SESSION_MINUTES * 60_000


def test_a_session_that_has_ended_asks_for_the_login(browser):
    script = """
    const login = JSON.parse(localStorage.getItem("leveret.login /"));
    localStorage.setItem("leveret.login /", JSON.stringify({...login, until: Date.now()}));
    """
    browser.driver.execute_script(script)
    browser.see("Logged out: the session has ended.")
