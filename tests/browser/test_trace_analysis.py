"""Analyses of trace logs from the pages: a report that is opened, and findings of the last hour."""

from urllib.parse import quote

import pika
import pytest

from tests.browser.chromium import wait_until_loaded

UNREAD = 40


@pytest.fixture
def logged(node, vhost):
    """A virtual host with a log, and messages that are not consumed."""
    answer = node.put(f"traces/{vhost}/all", {"format": "log", "pattern": "#"})
    assert answer.status == 201
    parameters = pika.ConnectionParameters("127.0.0.1", node.port, vhost)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("unread", arguments={"x-max-length": 5})
        for number in range(UNREAD):
            channel.basic_publish("", "unread", f"{number}".encode())
        channel.basic_publish("amq.direct", "nowhere", b"lost")
    node.wait_until(lambda: node.get(f"traces/{vhost}/all")["written"] > UNREAD, "it is written")
    yield vhost
    node.delete(f"traces/{vhost}/all")
    # Other tests of this node expect no files.
    node.wait_until(lambda: not any(".open" in name for name in files_of(node)), "they are closed")
    for name in files_of(node):
        node.delete(f"trace-files/{quote(name, safe='')}")


def files_of(node):
    return [file["name"] for file in node.get("trace-files")]


def test_an_analysis_is_started_and_its_report_opened(browser, node, logged):
    browser.go("admin", "traces")
    panel = browser.panel("Analysis")
    browser.choose("Analysed virtual host", logged, panel)
    browser.type("From", "yesterday", panel)
    browser.press("Analyse", panel)
    browser.see("write 2026-03-01")
    browser.type("From", "2026-01-01", panel)
    browser.press("Analyse", panel)
    browser.see_in(panel, "records of 1 files were analysed")
    assert node.put("trace-analysis", {"to": "1999-01-01"}).status == 400
    pages = browser.driver.window_handles
    browser.press("Open report", panel)
    browser.wait(lambda: len(browser.driver.window_handles) > len(pages), "another page")
    [opened] = set(browser.driver.window_handles) - set(pages)
    browser.driver.switch_to.window(opened)
    try:
        browser.wait(lambda: browser.driver.title.startswith("Trace report"), "the report")
        wait_until_loaded(browser.driver)
        browser.see("unread")
        browser.press("Zoom in")
        assert browser.errors() == []
    finally:
        browser.driver.close()
        browser.driver.switch_to.window(pages[0])
    assert node.acts(action="trace.analysis.started")


def test_findings_of_the_last_hour_are_shown_with_links(browser, node, logged):
    browser.go("admin", "findings")
    panel = browser.panel("The last hour")
    browser.press("Find problems", panel)
    browser.see_in(panel, "Stop finding")
    browser.see_in(panel, "nowhere")
    assert panel.find_elements("link text", "amq.direct")
    assert node.put("trace-findings").status == 409
    browser.press("Stop finding", panel)
    browser.see_in(panel, "Find problems")
    assert node.get("trace-findings")["state"] == "cancelled"
