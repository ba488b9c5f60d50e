"""The pages of queues: adding, publishing, getting, moving, purging, and the workbench."""

import pytest
from selenium.webdriver.common.by import By

HOSTILE = [
    "<img src=x onerror=window.broken=1> slash/%2F%25/100% ?a=b#c+d;e",
    "\"double\" 'single' ünïcödé ☃ 队列 &amp;<script>window.broken=1</script>",
]


def quoted(name):
    return "".join(f"%{byte:02X}" for byte in name.encode())


def test_a_queue_is_asked_about_made_used_and_deleted(browser, node, vhost):
    browser.follow("Queues")
    panel = browser.panel("Add a new queue")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "orders", panel)
    browser.type("Arguments", '{"x-max-length": 10}', panel)
    browser.press("Preview", panel)
    browser.see("It would be created.")
    browser.press("Add queue", panel)
    browser.see("Queue orders added")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "orders", panel)
    browser.press("x-max-priority", panel)
    browser.press("Preview", panel)
    browser.see("x-max-length: requested null, existing 10")
    browser.go("queues", vhost, "orders", "messages")
    panel = browser.panel("Publish message")
    browser.type("Payload", "first", panel)
    browser.press("Publish message", panel)
    browser.see("Message published")
    panel = browser.panel("Get messages")
    browser.press("Get messages", panel)
    browser.see_in(panel, "first")
    assert node.get(f"queues/{vhost}/orders")["messages"] == 1
    browser.choose("Ack mode", "ack_requeue_false", panel)
    browser.press("Get messages", panel)
    browser.see_in(panel, "redelivered")
    browser.press("Get messages", panel)
    browser.see_in(panel, "The queue is empty.")
    browser.go("queues", vhost, "orders")
    browser.press("Delete this queue")
    browser.confirm("Delete")
    browser.see_title("Queues")
    assert node.request("GET", f"queues/{vhost}/orders").status == 404


def test_messages_are_moved_and_purged(browser, node, vhost):
    for name in ("here", "there"):
        node.put(f"queues/{vhost}/{name}", {"durable": True})
    for number in range(3):
        node.publish(vhost, "here", str(number))
    browser.go("queues", vhost, "here", "messages")
    panel = browser.panel("Move messages")
    browser.type("To queue", "nowhere", panel)
    browser.press("Move messages", panel)
    browser.see(f"There is no queue 'nowhere' in virtual host '{vhost}'.")
    browser.type("To queue", "there", panel)
    browser.press("Move messages", panel)
    browser.confirm("Move")
    browser.see("Messages moved to there")
    moved = node.get(f"queues/{vhost}/there/messages")["messages"]
    assert [message["payload"] for message in moved] == ["0", "1", "2"]
    browser.go("queues", vhost, "there", "messages")
    browser.press("Purge messages")
    assert "3 ready messages in there will be deleted" in browser.dialog().text
    browser.confirm("Purge")
    browser.see("Messages purged")
    assert node.get(f"queues/{vhost}/there")["messages"] == 0


def test_where_messages_are_and_how_old_they_are(browser, node, vhost):
    node.put(f"queues/{vhost}/aged", {"durable": True})
    node.publish(vhost, "aged", "one")
    node.publish(vhost, "aged", "two")
    take = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
    assert node.post(f"queues/{vhost}/aged/get", take).body
    browser.go("queues", vhost, "aged")
    panel = browser.panel("Storage tiers")
    browser.see_in(panel, "alpha, in memory: 1")
    bar = panel.find_element(By.CSS_SELECTOR, ".stacked")
    assert "delta, on disk only: 0" in bar.get_attribute("aria-label")
    widths = [one.rect["width"] for one in bar.find_elements(By.TAG_NAME, "span")]
    assert widths[0] > 100
    assert widths[1:] == [0, 0, 0, 0]
    ages = browser.panel("Message age")
    assert "Oldest ready message" in ages.text
    rows = ages.find_elements(By.CSS_SELECTOR, "tbody tr")
    counts = [int(row.find_element(By.CSS_SELECTOR, "td.number").text) for row in rows]
    assert sum(counts) == 1


@pytest.fixture
def dead_letters(node, vhost):
    """Three rejected messages."""
    node.put(f"queues/{vhost}/dead", {"durable": True})
    arguments = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
    node.put(f"queues/{vhost}/work", {"durable": True, "arguments": arguments})
    for number in range(3):
        node.publish(vhost, "work", f"job {number}", {"headers": {"number": number}})
    reject = {"count": 3, "ackmode": "reject_requeue_false", "encoding": "auto"}
    assert len(node.post(f"queues/{vhost}/work/get", reject).body) == 3
    node.wait_until(lambda: node.get(f"queues/{vhost}/dead")["messages"] == 3, "they are dead")


def payloads(node, vhost, queue):
    return [one["payload"] for one in node.get(f"queues/{vhost}/{queue}/messages")["messages"]]


def test_dead_letters_are_found_edited_and_retried(browser, node, vhost, dead_letters):
    browser.go("queues", vhost, "dead", "dead-letters")
    panel = browser.panel("Dead letters in this queue")
    browser.type("Header", "number:1", panel)
    browser.press("Search", panel)
    browser.wait(lambda: "job 1" in panel.text and "job 0" not in panel.text, "one message")
    timeline = panel.find_element(By.CSS_SELECTOR, "ol.timeline")
    assert "rejected in queue work" in timeline.text
    assert payloads(node, vhost, "dead") == ["job 0", "job 1", "job 2"]
    browser.press("Edit and retry message 2", panel)
    browser.type("Payload", "mended", browser.dialog())
    browser.press("Retry with these changes", browser.dialog())
    browser.see("Retried 1 message")
    assert payloads(node, vhost, "work") == ["mended"]
    (message,) = node.get(f"queues/{vhost}/work/messages")["messages"]
    assert message["properties"]["headers"] == {"number": 1}
    browser.go("admin", "audit")
    browser.see("retry")
    browser.see('"edited":["payload"]')


def test_the_selected_and_all_that_match_are_retried_or_deleted(browser, node, vhost, dead_letters):
    browser.go("queues", vhost, "dead", "dead-letters")
    panel = browser.panel("Dead letters in this queue")
    browser.see_in(panel, "3 messages ready")
    assert not browser.button("Retry selected", panel).is_enabled()
    boxes = panel.find_elements(By.CSS_SELECTOR, "article input[type=checkbox]")
    browser.click(lambda: boxes[1], "the second message")
    browser.see_in(panel, "1 selected")
    browser.check("Select all shown", panel)
    browser.see_in(panel, "3 selected")
    browser.check("Select all shown", panel)
    browser.see_in(panel, "0 selected")
    browser.click(lambda: boxes[1], "the second message")
    browser.see_in(panel, "1 selected")
    browser.press("Retry selected", panel)
    browser.confirm("Retry")
    browser.see("Retried 1 message")
    assert payloads(node, vhost, "work") == ["job 1"]
    browser.type("Body matches", "2$", panel)
    browser.press("Search", panel)
    browser.press("Delete all matching", panel)
    question = browser.dialog().text
    assert "Delete 1 message?" in question
    assert "All 1 message of queue dead that match: dead letters, body 2$" in question
    browser.confirm("Delete")
    browser.see("Deleted 1 message")
    assert payloads(node, vhost, "dead") == ["job 0"]
    browser.type("Body matches", "", panel)
    browser.press("Search", panel)
    browser.press("Retry all matching", panel)
    browser.confirm("Retry")
    browser.wait(lambda: payloads(node, vhost, "dead") == [], "that all are gone")
    assert payloads(node, vhost, "work") == ["job 1", "job 0"]


def test_a_bad_expression_is_told(browser, node, vhost, dead_letters):
    browser.go("queues", vhost, "dead", "dead-letters")
    panel = browser.panel("Dead letters in this queue")
    browser.type("Body matches", "(", panel)
    browser.press("Search", panel)
    browser.see_in(panel, "is not a valid regular expression")


@pytest.mark.parametrize("name", HOSTILE, ids=["addresses", "quotes"])
def test_names_and_messages_that_look_like_markup_are_text(browser, node, vhost, name):
    node.put(f"queues/{vhost}/{quoted(name)}", {"durable": True})
    key = {"routing_key": name}
    assert node.post(f"bindings/{vhost}/e/amq.direct/q/{quoted(name)}", key).status == 201
    node.publish(vhost, name, name, {"headers": {name: name}})
    browser.follow("Queues")
    browser.choose("Virtual host", vhost)
    browser.follow(name)
    browser.see_title(f"Queue {name}")
    browser.follow("Messages")
    browser.see_in(browser.panel("Browse messages"), name)
    browser.go("queues", vhost, name, "bindings")
    browser.see_in(browser.panel("Bindings"), "amq.direct")
    browser.press(f"Unbind {name} from amq.direct with {name}")
    browser.confirm("Unbind")
    browser.see("Unbound")
    browser.follow("Messages")
    browser.press("Delete message 1")
    browser.confirm("Delete")
    browser.see("Deleted 1 message")
    assert node.get(f"queues/{vhost}/{quoted(name)}")["messages"] == 0
    browser.go("graph")
    browser.choose("Virtual host", vhost)
    browser.see("no bindings, and 1 queue without a binding")
    assert browser.driver.execute_script("return window.broken") is None
