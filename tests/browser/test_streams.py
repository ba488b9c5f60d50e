"""The pages of streams: their log, their clients, a look at messages, super streams."""

import asyncio
from urllib.parse import quote

import pytest

pytest.importorskip("rstream", reason="the extra [test] is not fully installed")

from rstream import Consumer, ConsumerOffsetSpecification, OffsetType, Producer
from selenium.webdriver.common.by import By

LOGIN = {"username": "guest", "password": "guest"}
NAME = "a/b <b>"
COUNT = 100


@pytest.fixture
def stream(node, vhost):
    """The path of a stream with messages in the API."""
    path = f"{vhost}/{quote(NAME, safe='')}"
    arguments = {"x-queue-type": "stream", "x-max-age": "7D", "x-max-length-bytes": 20_000_000}
    declared = {"durable": True, "arguments": arguments}
    # It is refused while its group gets no leader, as on a machine whose disk is busy.
    node.wait_until(lambda: node.put(f"queues/{path}", declared).status < 300, "it is declared")
    return path


@pytest.fixture
def clients(node, vhost, stream):
    """A publisher that has published, and a consumer that takes nothing more."""
    login = {"host": "127.0.0.1", "port": node.stream_port, "vhost": vhost, **LOGIN}
    producer, consumer = Producer(**login), Consumer(**login)

    async def begin():
        await producer.start()
        messages = [b"message %d" % number for number in range(COUNT)]
        await producer.send_batch(NAME, messages, publisher_name="<i>orders")
        await producer.send_wait(NAME, b"last", publisher_name="<i>orders")
        await consumer.start()
        start = ConsumerOffsetSpecification(OffsetType.FIRST)
        await consumer.subscribe(
            NAME, lambda message, context: None, offset_specification=start, initial_credit=0,
            subscriber_name="billing", properties={"name": "<i>billing"},
        )  # fmt: skip
        await consumer.store_offset(NAME, "<i>billing", 39)

    async def end():
        await producer.close()
        await consumer.close()

    with asyncio.Runner() as runner:
        runner.run(begin())
        node.wait_until(lambda: node.get(f"stream/{stream}/tracking")["offsets"], "it is stored")
        yield
        runner.run(end())


def description(chart):
    """The text alternative of a chart."""
    return chart.find_element(By.TAG_NAME, "svg").get_attribute("aria-label")


def test_the_log_and_the_clients_of_a_stream(browser, node, vhost, stream, clients):
    browser.go("queues", vhost, NAME)
    browser.see_title(f"Queue {NAME}")
    panel = browser.panel("Log")
    browser.see_in(panel, "Last offset\n100")
    browser.see_in(panel, "Messages are kept for 7D, and go by whole segments. All go at ")
    browser.see_in(panel, "Up to 20 MB are kept, of which ")
    browser.see_in(browser.panel("Replicas"), "writer")
    assert "Dead letters" not in browser.text()
    chart = browser.panel("Lag of consumers")
    browser.wait(lambda: "<i>billing now 101, between" in description(chart), "the line of the lag")
    browser.follow("Consumers")
    panel = browser.panel("Consumers of the stream protocol")
    browser.see_in(panel, "<i>billing")
    browser.see_in(panel, "101")
    browser.see_in(browser.panel("Publishers of the stream protocol"), "<i>orders")
    panel = browser.panel("Stored offsets")
    browser.see_in(panel, "<i>billing 39 61")
    browser.type("Consumer's name", "<i>billing", panel)
    browser.type("Goes on with", "soon", panel)
    browser.press("Reset offset", panel)
    browser.see("Failed: 'to' is 'soon', and must be an offset, a time")
    browser.type("Goes on with", "100", panel)
    browser.press("Reset offset", panel)
    browser.see_in(panel, "<i>billing 99 1")
    browser.follow("Streams")
    browser.see_title("Stream connections")
    for text in (NAME, "<i>orders", "<i>billing", "rstream-consumer"):
        browser.see(text)
    (name,) = {one["connection_details"]["name"] for one in node.get("stream/publishers")}
    browser.go("connections", name)
    browser.see_in(browser.panel("Publishers of the stream protocol"), NAME)


def test_a_look_at_messages_and_a_copy(browser, node, vhost, stream, clients):
    node.put(f"queues/{vhost}/copies", {"durable": True})
    browser.go("queues", vhost, NAME, "messages")
    panel = browser.panel("Messages")
    browser.see_in(panel, "message 19")
    browser.type("From", "90", panel)
    browser.press("Show", panel)
    browser.see_in(panel, "message 99")
    browser.press("Previous", panel)
    browser.see_in(panel, "message 70")
    assert "message 90" not in panel.text
    browser.type("From", "yesterday", panel)
    browser.press("Show", panel)
    browser.see_in(panel, "'offset' is 'yesterday', and must be an offset, a time such as")
    browser.driver.get_log("browser")
    browser.press("Newest", panel)
    browser.see_in(panel, "Offset 100")
    copying = browser.panel("Copy messages to a queue")
    browser.type("From position", "10", copying)
    browser.type("To position", "30", copying)
    browser.type("To queue", "copies", copying)
    browser.press("Copy", copying)
    browser.see_in(copying, "20 messages copied")
    browser.wait(lambda: node.get(f"queues/{vhost}/copies")["messages"] == 20, "the copies")


def test_an_empty_stream_and_one_that_is_deleted_meanwhile(browser, node, vhost):
    node.put(f"queues/{vhost}/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    browser.go("queues", vhost, "s", "messages")
    browser.see("The stream has no messages.")
    browser.go("queues", vhost, "s")
    browser.see("All messages are kept: the stream has neither max-age nor max-length-bytes.")
    node.delete(f"queues/{vhost}/s")
    browser.see("Not found: the object does not exist, or was deleted.")
    browser.driver.get_log("browser")
    node.put(f"queues/{vhost}/s", {"durable": True, "arguments": {"x-queue-type": "stream"}})
    browser.see_not("Not found")
    browser.press("Delete this stream")
    browser.confirm("Delete")
    browser.see_title("Queues")


def test_super_streams_are_added_and_deleted(browser, node, vhost):
    browser.go("stream", "super-streams")
    panel = browser.panel("Add a new super stream")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "i <b>", panel)
    browser.type("Or binding keys", "emea,apac", panel)
    browser.press("Add super stream", panel)
    browser.follow("i <b>")
    browser.see("i <b>-emea")
    browser.see("apac")
    browser.press("Delete this super stream")
    browser.confirm("Delete")
    browser.see_title("Super streams")
    assert node.get(f"queues/{vhost}") == []
