"""The parts of a queue's page, stalled consumers, searches that stop, and questions asked first."""

import pytest

# The node's answer as it is when a consumer has acknowledged nothing for some minutes.
STALLED = """
const before = window.fetch;
window.fetch = async (url, asked) => {
  const response = await before(url, asked);
  if (!String(url).includes("api/queues/")) return response;
  const queue = await response.json();
  queue.consumer_details = [{consumer_tag: "<b>idle", activity_status: "up", active: true,
    ack_required: true, exclusive: false, prefetch_count: 3, arguments: {},
    channel_details: {name: "somebody (1)"}, queue: {name: "q", vhost: "/"},
    messages_unacknowledged: 3, stalled_since: "2026-01-02T03:04:05.000+00:00"}];
  return new Response(JSON.stringify(queue));
};
"""
# As if the limit of a search were two messages.
SHORT_SEARCH = """
const before = window.fetch;
window.fetch = (url, asked) => {
  const limited = new URL(url);
  if (limited.pathname.endsWith("/messages")) limited.searchParams.append("scanned_max", "2");
  return before(limited, asked);
};
"""


@pytest.fixture
def queue(node, vhost):
    """A queue with five messages."""
    arguments = {"x-dead-letter-exchange": "amq.topic", "x-dead-letter-routing-key": "failed"}
    node.put(f"queues/{vhost}/q", {"durable": True, "arguments": arguments})
    for number in range(5):
        node.publish(vhost, "q", f"job {number}")
    return "q"


@pytest.mark.parametrize(
    ("part", "seen"),
    [
        ([], "Storage tiers"), (["messages"], "job 4"), (["consumers"], "No consumers."),
        (["bindings"], "Add binding to this queue"), (["dead-letters"], "amq.topic"),
    ],
)  # fmt: skip
def test_each_part_of_a_queue_has_an_address(browser, vhost, queue, part, seen):
    browser.go("queues", vhost, queue, *part)
    browser.see_title("Queue q")
    browser.see(seen)


def test_a_consumer_that_holds_messages_and_does_nothing_is_shown_as_stalled(browser, vhost, queue):
    browser.driver.execute_script(STALLED)
    browser.go("queues", vhost, queue)
    browser.see("1 consumer holds messages and acknowledges none.")
    browser.follow("1 consumer")
    browser.see("stalled: holds 3 messages, no ack since")
    browser.see("<b>idle")
    browser.reload()


def test_a_search_that_stopped_at_its_limit_says_so_and_goes_on(browser, vhost, queue):
    browser.driver.execute_script(SHORT_SEARCH)
    browser.go("queues", vhost, queue, "messages")
    panel = browser.panel("Browse messages")
    browser.see_in(panel, "job 0")
    browser.type("Body matches", "4$", panel)
    browser.press("Search", panel)
    browser.see_in(panel, "The search stopped after 2 messages, of which 0 matched.")
    browser.press("Next", panel)
    browser.see_in(panel, "messages 3 to 4 searched")
    browser.press("Next", panel)
    browser.see_in(panel, "job 4")
    assert "stopped" not in panel.text
    browser.reload()


def test_a_destination_is_checked_before_the_question(browser, vhost, queue):
    browser.go("queues", vhost, queue, "messages")
    panel = browser.panel("Browse messages")
    browser.press("Move all", panel)
    browser.type("Queue", "nowhere", browser.dialog())
    browser.press("Continue", browser.dialog())
    browser.see(f"There is no queue 'nowhere' in virtual host '{vhost}'.")
    browser.type("Queue", queue, browser.dialog())
    browser.press("Continue", browser.dialog())
    browser.see("The destination must be another queue.")
    browser.press("Cancel", browser.dialog())


def test_a_virtual_host_with_messages_is_deleted_after_its_name_was_typed(
    browser, node, vhost, queue
):
    browser.go("admin", "vhosts", vhost)
    browser.press("Delete this virtual host")
    dialog = browser.dialog()
    assert "5 messages" in dialog.text
    assert not browser.button("Delete", dialog).is_enabled()
    browser.type(f"Type the name {vhost} to confirm", vhost, dialog)
    browser.confirm("Delete")
    browser.see_title("Virtual hosts")
    assert node.request("GET", f"vhosts/{vhost}").status == 404


def test_delayed_retries_are_delivered_now_and_discarded(browser, node, vhost):
    arguments = {"x-delayed-retry-type": "all", "x-delayed-retry-min": 86_400_000}
    node.put(f"queues/{vhost}/retries", {"durable": True, "arguments": arguments})
    for number in range(2):
        node.publish(vhost, "retries", f"job {number}")
        taken = {"count": 1, "ackmode": "ack_requeue_true", "encoding": "auto"}
        node.post(f"queues/{vhost}/retries/get", taken)
    browser.go("queues", vhost, "retries")
    browser.see("Next delivery")
    browser.press("Deliver all now")
    browser.see("Delivered")
    assert node.get(f"queues/{vhost}/retries/retries")["messages"] == 0
