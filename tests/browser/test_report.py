"""The HTML report of an analysis in a browser: no requests, and names are never executed."""

import pytest
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By

from leveret.analytics.report.report_page import page
from tests.analytics.story import afternoon, told
from tests.browser.chromium import wait_until_loaded

SCREEN, NARROW = (1280, 900), (420, 800)
SEEN = """
return [...document.querySelectorAll("svg[role=img]")]
  .map((one) => one.getBoundingClientRect().height)
"""
UNNAMED = """
return [...document.querySelectorAll("svg[role=img]")].filter((one) => !one.ariaLabel).length
"""
LABELS = """
return [...document.querySelectorAll(".times")]
  .map((one) => [...one.querySelectorAll("text")].map((text) => text.textContent))
"""
DEPTHS = """
return [...document.querySelectorAll("#depth tbody td:nth-child(2)")].map((one) => one.textContent)
"""
REQUESTS = "return performance.getEntriesByType('resource').map((one) => one.name)"
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
CONTRAST = """
const luminance = (colour) => {
  const parts = colour.match(/[0-9.]+/g).slice(0, 3).map((part) => part / 255)
    .map((part) => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
  return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
};
const behind = (one) => {
  const colour = getComputedStyle(one).backgroundColor;
  return colour === "rgba(0, 0, 0, 0)" && one.parentElement ? behind(one.parentElement) : colour;
};
return [...document.querySelectorAll("p, strong, a, h1, h2, td, th, summary")].map((one) => {
  const [a, b] = [luminance(getComputedStyle(one).color), luminance(behind(one))];
  return (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
}).reduce((least, one) => Math.min(least, one));
"""


@pytest.fixture
def report(driver, tmp_path):
    """Open the report, and discard earlier console messages."""
    path = tmp_path / "report.html"
    path.write_text(page(afternoon(), told()), "utf-8")
    driver.set_window_size(*SCREEN)
    driver.get_log("browser")
    driver.get(path.as_uri())
    wait_until_loaded(driver)
    yield driver
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [], "media": ""})


def test_findings_come_first_and_nothing_is_asked_for(report):
    first = report.find_element(By.CSS_SELECTOR, "main li")
    assert "queue <b>orders</b>: more came than left" in first.text
    assert report.execute_script(REQUESTS) == []
    assert report.get_log("browser") == []
    assert report.title.startswith("Trace report, 2026-03-01 12:00")


def test_hostile_names_are_only_seen(report):
    assert report.title != "owned"
    assert len(report.find_elements(By.TAG_NAME, "script")) == 1
    assert "</title><script>" in report.find_element(By.ID, "traffic").get_property("textContent")


def test_charts_are_zoomed_together_and_back(report):
    before = report.execute_script(LABELS)
    report.find_element(By.XPATH, "//button[.='Zoom in']").click()
    report.find_element(By.XPATH, "//button[.='Zoom in']").click()
    zoomed = report.execute_script(LABELS)
    assert zoomed != before
    assert len({tuple(labels) for labels in zoomed}) == 1
    report.find_element(By.XPATH, "//button[.='Whole trace']").click()
    assert report.execute_script(LABELS) == before


def test_a_part_of_a_chart_is_chosen_with_the_pointer(report):
    plot = report.find_element(By.CSS_SELECTOR, ".plot")
    before = report.execute_script(LABELS)
    ActionChains(report).move_to_element(plot).click_and_hold().move_by_offset(60, 0).release(
    ).perform()  # fmt: skip
    assert report.execute_script(LABELS) != before
    assert report.get_log("browser") == []


def test_a_table_is_sorted_by_the_column_that_is_pressed(report):
    report.execute_script("document.querySelectorAll('details').forEach((one) => one.open = true)")
    for order in ("descending", "ascending"):
        report.find_element(By.XPATH, "//th/button[.='most ready']").click()
        found = [int(text.replace(",", "")) for text in report.execute_script(DEPTHS)]
        assert found == sorted(found, reverse=order == "descending")
        sorted_by = report.find_element(By.CSS_SELECTOR, f"th[aria-sort={order}]")
        assert sorted_by.text.startswith("most ready")


def test_charts_are_seen_and_have_names(report):
    heights = report.execute_script(SEEN)
    assert len(heights) >= 8
    assert all(height > 50 for height in heights)
    assert report.execute_script(UNNAMED) == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_can_be_read_in_light_and_dark(report, scheme):
    features = [{"name": "prefers-color-scheme", "value": scheme}]
    report.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})
    assert report.execute_script(CONTRAST) >= 4.5


def test_a_narrow_screen_scrolls_down_only(report):
    report.set_window_size(*NARROW)
    assert report.execute_script(WIDER) <= 0


def test_printed_it_is_whole(report):
    printed = report.execute_cdp_cmd("Page.printToPDF", {})
    assert len(printed["data"]) > 20_000
