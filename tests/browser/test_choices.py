"""The virtual host of all pages, columns of lists, links, and definitions of one virtual host."""

import json

import pytest
from selenium.webdriver.common.by import By

ASKED = """
return performance.getEntriesByType("resource").map((one) => one.name)
  .filter((one) => one.includes("api/queues")).at(-1);
"""
COLUMNS = (By.CSS_SELECTOR, ".columns > summary")
LINKS = "return [...document.querySelectorAll('#foot a')].map((one) => [one.textContent, one.href])"


@pytest.fixture
def queues(node, vhost):
    """A queue in the test's virtual host, and one elsewhere."""
    node.put(f"queues/{vhost}/inside", {"durable": True})
    node.put("queues/%2F/outside", {"durable": True})
    yield
    node.delete("queues/%2F/outside")


def test_one_choice_of_the_virtual_host_is_for_all_pages(browser, node, vhost, queues):
    node.put(f"policies/{vhost}/mine", {"pattern": "x", "definition": {"max-length": 1}})
    node.put("policies/%2F/other", {"pattern": "x", "definition": {"max-length": 1}})
    browser.follow("Queues")
    browser.see("outside")
    browser.choose("Virtual host", vhost)
    browser.see_not("outside")
    browser.see("inside")
    assert f"vhost={vhost}" in browser.driver.current_url
    browser.follow("Exchanges")
    browser.see("amq.topic")
    rows = browser.driver.find_elements(By.CSS_SELECTOR, "tbody tr")
    assert {row.find_elements(By.TAG_NAME, "td")[1].text for row in rows} == {vhost}
    browser.go("admin", "policies")
    browser.see("mine")
    browser.see_not("other")
    panel = browser.panel("Add / update a policy")
    assert browser.control("Virtual host", panel).get_attribute("value") == vhost
    browser.choose("Virtual host", "")
    browser.see("other")
    node.delete("policies/%2F/other")


def test_an_address_has_the_virtual_host(browser, vhost, queues):
    browser.open(f"{browser.url}#/queues?vhost={vhost}")
    browser.see("inside")
    browser.see_not("outside")
    assert browser.control("Virtual host").get_attribute("value") == vhost


def test_a_virtual_host_that_is_gone_is_forgotten(browser, node, queues):
    browser.follow("Queues")
    browser.driver.execute_script("localStorage.setItem('leveret.vhost', 'gone')")
    browser.reload()
    browser.see("outside")
    assert browser.control("Virtual host").get_attribute("value") == ""


def test_columns_are_chosen_and_remembered(browser, node, vhost, queues):
    browser.open(f"{browser.url}#/queues?vhost={vhost}")
    browser.see("inside")
    browser.click(lambda: browser.driver.find_element(*COLUMNS), "the choice of columns")
    browser.check("Type")
    browser.check("Unacked")
    heads = (By.CSS_SELECTOR, "thead th")
    wanted = {"Type"}
    browser.wait(
        lambda: wanted <= {one.text for one in browser.driver.find_elements(*heads)}, "the column"
    )
    browser.see("classic")
    browser.reload()
    browser.see("classic")
    assert "Unacked" not in [one.text for one in browser.driver.find_elements(*heads)]
    asked = browser.driver.execute_script(ASKED)
    assert "type" in asked
    assert "messages_unacknowledged" not in asked


def test_the_foot_has_links_to_the_references(browser, node):
    links = dict(browser.driver.execute_script(LINKS))
    assert links["HTTP API"] == f"{browser.url}api/index.html"
    assert links["rabbitmqadmin"] == f"{browser.url}cli/rabbitmqadmin"
    assert links["RabbitMQ documentation"].startswith("https://www.rabbitmq.com/")
    for name in ("HTTP API", "OpenAPI description", "Command line tools"):
        assert node.request("GET", links[name].partition("/api/")[2] or "whoami").status == 200


def test_definitions_of_one_virtual_host_are_exported_and_imported(
    browser, node, vhost, queues, tmp_path
):
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    browser.driver.execute_cdp_cmd("Browser.setDownloadBehavior", behaviour)
    browser.follow("Queues")
    browser.follow("Overview")
    panel = browser.panel("Export definitions")
    browser.choose("Virtual host", vhost, panel)
    browser.type("File name", "one.json", panel)
    browser.press("Download broker definitions", panel)
    browser.see("Definitions exported")
    path = tmp_path / "one.json"
    browser.wait(path.exists, "the file")
    content = json.loads(path.read_text())
    assert [queue["name"] for queue in content["queues"]] == ["inside"]
    assert "users" not in content
    node.delete(f"queues/{vhost}/inside")
    panel = browser.panel("Import definitions")
    browser.choose("Virtual host", vhost, panel)
    browser.control("Definitions file", panel).send_keys(str(path))
    browser.press("Preview changes", panel)
    browser.see("+ queue inside")
    browser.check("Import these definitions")
    browser.press("Import")
    browser.see("Definitions imported")
    assert node.get(f"queues/{vhost}/inside")["durable"]
