"""Charts: axes, values at the pointer, lines that are switched off, and lines that are equal."""

import json
import re

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

OVERHANG = """
const right = arguments[0].querySelector("svg").getBoundingClientRect().right;
return Math.max(...[...arguments[0].querySelectorAll(".times text")].map(
  (one) => one.getBoundingClientRect().right - right));
"""
TEXTS = "return [...arguments[0].querySelectorAll(arguments[1])].map((one) => one.textContent)"
HIDE_READY = (By.CSS_SELECTOR, "button[title='Hide Ready']")
SHOW_READY = (By.CSS_SELECTOR, "button[title='Show Ready']")
PATHS = """
return [...arguments[0].querySelectorAll("path")].map((one) => ["data-line", "stroke-dasharray",
  "stroke-dashoffset"].map((name) => one.getAttribute(name)));
"""


@pytest.fixture
def chart(browser, vhost):
    """The chart of queued messages in an empty virtual host: its three lines are equal."""
    browser.go("admin", "vhosts", vhost)
    browser.see_title(f"Virtual host {vhost}")
    panel = browser.panel("Queued messages")
    browser.wait(lambda: panel.find_elements(By.CSS_SELECTOR, "svg path"), "its lines")
    return panel


def texts(browser, panel, selector):
    return browser.driver.execute_script(TEXTS, panel, selector)


def test_a_chart_has_an_axis_of_times_and_one_of_values(browser, chart):
    times = texts(browser, chart, ".times text")
    assert len(times) >= 3
    assert all(re.fullmatch(r"\d\d:\d\d:\d\d", one) for one in times)
    assert texts(browser, chart, ".values text") == ["0", "1"]
    assert browser.driver.execute_script(OVERHANG, chart) <= 1, "no label is cut off"
    browser.choose("Chart range", "86400")
    browser.wait(
        lambda: re.fullmatch(r"\d\d:\d\d", texts(browser, chart, ".times text")[0]), "a day"
    )
    assert "age=86400" in browser.driver.current_url


def test_the_values_at_the_pointer_and_at_the_cursor_keys_are_shown(browser, chart):
    tip = chart.find_element(By.CSS_SELECTOR, ".tip")
    picture = chart.find_element(By.TAG_NAME, "svg")
    browser.driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", picture)
    ActionChains(browser.driver).move_to_element(picture).perform()
    browser.wait(lambda: "Ready\n0" in tip.text and "Total\n0" in tip.text, "values")
    assert re.search(r"\d:\d\d:\d\d", tip.text)
    browser.driver.execute_script("arguments[0].focus()", picture)
    picture.send_keys(Keys.ARROW_LEFT)
    before = tip.text
    picture.send_keys(Keys.ARROW_LEFT)
    browser.wait(lambda: tip.text != before, "the time before")
    picture.send_keys(Keys.ESCAPE)
    browser.wait(lambda: not tip.is_displayed(), "that it closes")


def test_the_legend_switches_lines_and_the_browser_remembers_them(browser, chart):
    def lines():
        return {line for line, *_ in browser.driver.execute_script(PATHS, chart)}

    assert lines() == {"Ready", "Unacked", "Total"}
    browser.click(lambda: chart.find_element(*HIDE_READY), "Ready in the legend")
    assert lines() == {"Unacked", "Total"}
    browser.reload()
    chart = browser.panel("Queued messages")
    browser.wait(lambda: lines() == {"Unacked", "Total"}, "the same lines")
    browser.click(lambda: chart.find_element(*SHOW_READY), "Ready in the legend")
    browser.wait(lambda: len(lines()) == 3, "all lines")


def test_equal_lines_are_drawn_with_dashes_side_by_side(browser, chart):
    dashes = {line: rest for line, *rest in browser.driver.execute_script(PATHS, chart)}
    assert {dash for dash, _ in dashes.values()} == {"7 14"}
    assert len({offset for _, offset in dashes.values()}) == 3


def test_all_message_rates_of_rabbitmq_are_lines(browser, node, vhost):
    node.put(f"queues/{vhost}/rated")
    node.publish(vhost, "rated", "one")
    browser.go("queues", vhost, "rated")
    browser.see_title("Queue rated")
    names = ".legend button span"
    browser.wait(
        lambda: "Deliver (manual ack)" in texts(browser, browser.panel("Message rates"), names),
        "the rates",
    )
    shown = texts(browser, browser.panel("Message rates"), names)
    assert json.dumps(shown).count("Get (") == 3
