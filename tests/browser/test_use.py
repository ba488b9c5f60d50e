"""Usability of the pages: lists, keyboard, phone, names for screen readers, light and dark."""

from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

PAGES = (
    ("Overview", ""), ("Connections", "connections"), ("Channels", "channels"),
    ("Exchanges", "exchanges"), ("Exchange amq.topic", "exchanges", "/", "amq.topic"),
    ("Queues", "queues"), ("Queue fitting", "queues", "/", "fitting"),
    ("Queue fitting", "queues", "/", "fitting", "messages"),
    ("Queue fitting", "queues", "/", "fitting", "dead-letters"),
    ("Queue log", "queues", "/", "log"), ("Queue log", "queues", "/", "log", "messages"),
    ("Queue log", "queues", "/", "log", "consumers"), ("Stream connections", "stream"),
    ("Super streams", "stream", "super-streams"),
    ("Super stream all", "stream", "super-streams", "/", "all"), ("Bindings", "graph"),
    ("Node test@localhost", "nodes", "test@localhost"), ("Users", "admin"),
    ("User guest", "admin", "users", "guest"), ("Virtual hosts", "admin", "vhosts"),
    ("Virtual host /", "admin", "vhosts", "/"), ("Policies", "admin", "policies"),
    ("Operator policies", "admin", "operator-policies"), ("Limits", "admin", "limits"),
    ("Feature flags", "admin", "features"), ("Shovels", "admin", "shovels"),
    ("Federation status", "admin", "federation"),
    ("Federation upstreams", "admin", "federation-upstreams"),
    ("Federation upstream sets", "admin", "federation-upstream-sets"),
    ("Standby", "admin", "standby"),
    ("Audit", "admin", "audit"),
)  # fmt: skip

WIDTH = "return document.scrollingElement.scrollWidth"
UNNAMED = """
const named = (one) => one.getAttribute('aria-label') || one.labels?.length
  || one.textContent.trim() || one.closest('label');
const all = [...document.querySelectorAll('button, input, select, textarea, a')];
const levels = [...document.querySelectorAll('h1, h2, h3')].map((one) => Number(one.tagName[1]));
const jumps = levels.filter((level, place) => place && level > levels[place - 1] + 1);
const ids = [...document.querySelectorAll('[id]')].map((one) => one.id);
return [...all.filter((one) => !named(one)).map((one) => one.outerHTML),
  ...jumps.map((level) => `h${level} out of order`),
  ...ids.filter((id, place) => ids.indexOf(id) < place).map((id) => `${id} is there twice`),
  ...[...document.querySelectorAll('table:not(:has(caption))')].map((one) => one.outerHTML)];
"""

# Texts whose contrast is below level AA of WCAG 2.
FAINT = """
const parts = (colour) => colour.match(/[\\d.]+/g).map(Number);
const light = ([r, g, b]) => [r, g, b].map((one) => one / 255)
  .map((one) => (one <= 0.04045 ? one / 12.92 : ((one + 0.055) / 1.055) ** 2.4))
  .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
const behind = (element) => {
  for (let one = element; one; one = one.parentElement) {
    const colour = parts(getComputedStyle(one).backgroundColor);
    if (colour.length === 3 || colour[3] === 1) return colour;
  }
  return [255, 255, 255];
};
const hasText = (one) => [...one.childNodes].some((node) => node.nodeType === 3
  && node.data.trim());
const ratio = (one) => {
  const two = [light(parts(getComputedStyle(one).color)), light(behind(one))];
  return (Math.max(...two) + 0.05) / (Math.min(...two) + 0.05);
};
return [...document.querySelectorAll('body *:not(option, script, noscript, svg *)')]
  .filter((one) => hasText(one) && one.checkVisibility() && !one.disabled && ratio(one) < 4.5)
  .map((one) => `${one.outerHTML.slice(0, 80)}: ${ratio(one).toFixed(1)}`);
"""


def test_lists_sort_filter_and_page_and_stand_in_the_address(browser, node, vhost):
    for number in range(30):
        node.put(f"queues/{vhost}/n{number:02}", {"durable": True})
    browser.follow("Queues")
    browser.type("Filter", "n")
    browser.choose("Virtual host", vhost)
    browser.choose("Rows per page", "25")
    browser.press("Name")
    browser.see("page 1 of 2")
    browser.press("Name")
    first = (By.CSS_SELECTOR, "tbody tr:first-child td:first-child")
    browser.wait(lambda: browser.driver.find_element(*first).text == "n29", "the last first")
    heading = browser.button("Name").find_element(By.XPATH, "..")
    assert heading.get_attribute("aria-sort") == "descending"
    browser.press("Next")
    browser.see("page 2 of 2")
    address = browser.driver.current_url
    assert "sort=name" in address
    assert "page=2" in address
    browser.open("about:blank")
    browser.open(address)
    browser.see("page 2 of 2")


def test_a_filter_may_be_a_regular_expression(browser, node, vhost):
    for name in ("alpha", "beta"):
        node.put(f"queues/{vhost}/{name}", {"durable": True})
    browser.follow("Queues")
    browser.choose("Virtual host", vhost)
    browser.check("Regex")
    browser.type("Filter", "^be")
    browser.see("beta")
    browser.see_not("alpha")
    browser.type("Filter", "(")
    browser.see("'(' is not a valid regular expression: missing )")
    browser.type("Filter", "^nothing")
    browser.see("No rows match the filter")


def test_a_list_that_has_become_shorter_goes_back_to_its_first_page(browser, node, vhost):
    for number in range(26):
        node.put(f"queues/{vhost}/n{number:02}", {"durable": True})
    browser.open(f"{browser.url}#/queues?vhost={vhost}&size=25&page=2")
    browser.see("page 2 of 2")
    assert node.delete(f"queues/{vhost}/n00").status == 204
    browser.see("25 rows in total")
    browser.see("n01")


def test_only_the_shown_columns_are_requested(browser, node, vhost):
    node.put(f"queues/{vhost}/small", {"durable": True})
    browser.follow("Queues")
    browser.see("small")
    size = browser.driver.execute_script("""
      const all = performance.getEntriesByType("resource");
      return Math.max(...all.filter((one) => one.name.includes("api/queues"))
        .map((one) => one.decodedBodySize));
    """)
    rows = len(node.get("queues?columns=name"))
    assert 0 < size < 200 + 700 * rows


def test_typing_in_a_filter_survives_updates(browser, node, vhost):
    browser.follow("Queues")
    control = browser.control("Filter")
    control.send_keys("some")
    node.put(f"queues/{vhost}/something", {"durable": True})
    browser.see("something")
    assert browser.driver.switch_to.active_element.get_attribute("name") == "name"
    assert control.get_attribute("value") == "some"


def test_the_keyboard_is_enough(browser, node, vhost):
    """A queue is deleted without a mouse; Escape closes a dialog."""
    node.put(f"queues/{vhost}/doomed", {"durable": True})
    browser.go("queues", vhost, "doomed")
    browser.see_title("Queue doomed")
    button = browser.button("Delete this queue")
    browser.driver.execute_script("arguments[0].focus()", button)
    button.send_keys(Keys.ENTER)
    browser.dialog()
    focused = browser.driver.switch_to.active_element
    assert focused.text == "Cancel"
    focused.send_keys(Keys.ESCAPE)
    browser.wait(lambda: not browser.driver.find_elements(By.TAG_NAME, "dialog"), "it closed")
    assert browser.driver.switch_to.active_element.text == "Delete this queue"
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.dialog()
    browser.driver.switch_to.active_element.send_keys(Keys.SHIFT, Keys.TAB)
    browser.wait(lambda: browser.driver.switch_to.active_element.text == "Delete", "the focus")
    browser.driver.switch_to.active_element.send_keys(Keys.ENTER)
    browser.see_title("Queues")
    assert node.request("GET", f"queues/{vhost}/doomed").status == 404


def test_the_skip_link_leads_to_the_content(browser):
    browser.driver.find_element(By.TAG_NAME, "body").send_keys(Keys.HOME)
    link = browser.driver.find_element(By.CSS_SELECTOR, ".skip")
    browser.driver.execute_script("arguments[0].focus()", link)
    assert link.rect["x"] >= 0
    link.send_keys(Keys.ENTER)
    assert browser.driver.switch_to.active_element.get_attribute("id") == "main"
    browser.see_title("Overview")


def test_pages_fit_a_phone_have_names_for_everything_and_can_be_read(browser, node):
    node.put("queues/%2F/fitting", {"durable": True})
    node.put("queues/%2F/log", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    node.put("stream/super-streams/%2F/all", {"partitions": 2})
    script = browser.driver.execute_script
    with browser.phone(width=360):
        for title, *page in PAGES:
            browser.go(*page)
            browser.see_title(title)
            browser.wait(lambda: script(WIDTH) <= 360, f"that {title} fits")
            assert (title, script(UNNAMED)) == (title, [])
            for theme in ("light", "dark"):
                script("document.documentElement.dataset.theme = arguments[0]", theme)
                assert (title, theme, script(FAINT)) == (title, theme, [])


def test_a_phone_has_a_menu(browser):
    with browser.phone():
        menu = browser.button("Menu")
        assert menu.get_attribute("aria-expanded") == "false"
        browser.press("Menu")
        browser.follow("Queues")
        browser.see_title("Queues")
        assert menu.get_attribute("aria-expanded") == "false"


def test_dark_colours_are_as_the_system_has_them_until_they_are_chosen(browser):
    background = "return getComputedStyle(document.body).backgroundColor"
    script = browser.driver.execute_script
    light = script(background)
    features = [{"name": "prefers-color-scheme", "value": "dark"}]
    browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    try:
        browser.wait(lambda: script(background) != light, "dark colours")
        browser.press("Use light colours")
        assert script(background) == light
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
    browser.press("Use dark colours")
    browser.reload()
    browser.see_title("Overview")
    assert script("return document.documentElement.dataset.theme") == "dark"
    assert script(background) != light
