"""Pages say that they load, stay up to date when answers are late, and tell reasons in words."""

import pytest

# Answers of the API wait until window.release().
HELD = """
const [method, part] = arguments;
const before = window.fetch;
const released = new Promise((resolve) => { window.release = resolve; });
window.fetch = async (url, asked) => {
  if (asked.method === method && String(url).includes(part)) {
    window.isHeld = true;
    await released;
  }
  return before(url, asked);
};
"""


@pytest.fixture
def hold(browser):
    """Holds the API's answers to requests back, until the function that it returns is called."""
    script = browser.driver.execute_script

    def begin(method, part):
        script(HELD, method, part)
        return lambda: script("window.release()")

    yield begin
    browser.reload()


def test_a_page_says_that_it_is_loading_until_it_has_its_data(browser, hold):
    release = hold("GET", "api/exchanges")
    browser.follow("Exchanges")
    browser.see("Loading …")
    release()
    browser.see("amq.topic")
    browser.see_not("Loading …")


def test_a_late_answer_for_a_page_that_was_left_does_not_end_the_updates(
    browser, node, vhost, hold
):
    release = hold("GET", "api/overview")
    browser.wait(lambda: browser.driver.execute_script("return window.isHeld"), "a late answer")
    browser.follow("Queues")
    browser.see_title("Queues")
    browser.see_not("Loading …")
    release()
    node.put(f"queues/{vhost}/declared-later", {"durable": True})
    browser.see("declared-later")


def test_a_notice_goes_with_its_page(browser):
    browser.follow("Queues")
    panel = browser.panel("Add a new queue")
    browser.type("Name", "q", panel)
    browser.type("Arguments", "[1]", panel)
    browser.press("Add queue", panel)
    browser.see("must be a JSON object")
    browser.follow("Exchanges")
    browser.see_title("Exchanges")
    assert "must be a JSON object" not in browser.text()


def test_a_notice_of_an_action_that_ends_later_names_its_page(browser, node, vhost, hold):
    browser.follow("Queues")
    release = hold("PUT", "api/queues")
    panel = browser.panel("Add a new queue")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "late", panel)
    browser.press("Add queue", panel)
    browser.follow("Exchanges")
    browser.see_title("Exchanges")
    release()
    browser.see("Queues: Queue late added")


def test_a_bad_regular_expression_of_a_permission_is_told_in_words(browser, vhost):
    browser.go("admin", "users", "guest")
    panel = browser.panel("Permissions")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Configure regexp", "(", panel)
    browser.press("Set permissions", panel)
    browser.see("Failed: '(' is not a valid regular expression: missing )")


def test_the_memory_breakdown_says_what_is_an_estimate(browser, node):
    browser.follow(node.name)
    memory = browser.panel("Memory details")
    browser.see_in(memory, "Queues: ")
    parts = memory.find_element("css selector", ".stacked").get_attribute("aria-label").split(", ")
    estimates = {part.split(":")[0] for part in parts if part.endswith(" (estimate)")}
    assert "Other" in estimates
    assert "Code" not in estimates
