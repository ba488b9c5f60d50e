"""The page of a connection of AMQP 1.0: its sessions and links."""

import pytest

from leveret.mgmt.ctl.tool import LEVERET_PLUGINS
from tests.mgmt.ctl_command import run_command
from tests.protocol.amqp10_socket import Amqp10Socket


@pytest.fixture
def client(node, vhost):
    where = ("--data-dir", node.data_dir, "--node", node.name)
    done = run_command(*where, "enable", "rabbitmq_amqp1_0", tool=LEVERET_PLUGINS)
    assert done.returncode == 0, done.stderr
    node.put(f"queues/{vhost}/a%2Fb", {"durable": True})
    node.put(f"permissions/{vhost}/guest", {"configure": ".*", "write": ".*", "read": ".*"})
    made = Amqp10Socket(node.port, hostname=f"vhost:{vhost}")
    yield made
    made.close()


def test_the_sessions_and_links_of_a_connection(browser, node, client):
    client.publisher("/queues/a%2Fb", 1)
    client.publish("<b>", 1)
    client.consumer("/queues/a%2Fb", 2, credit=1)
    client.receive()
    client.consumer("/queues/a%2Fb", 3, credit=5, snd_settle_mode=1)
    browser.go("connections", f"127.0.0.1:{client.port} -> 127.0.0.1:{node.port}")
    browser.see_in(browser.panel("Overview"), "Container id\ntest")
    browser.see_in(browser.panel("Sessions"), "0 399 999 999 1")
    browser.see_in(browser.panel("Incoming links"), "0 1 link 1 /queues/a%2Fb mixed 169 0 1")
    panel = browser.panel("Outgoing links")
    browser.see_in(panel, "0 2 link 2 /queues/a%2Fb a/b no 0 1")
    browser.see_in(panel, "0 3 link 3 /queues/a%2Fb a/b yes 5 0")
    browser.follow("a/b")
    browser.see_title("Queue a/b")
    browser.follow("Consumers")
    browser.see_in(browser.panel("Consumers"), "link 2")
    browser.follow(f"127.0.0.1:{client.port} -> 127.0.0.1:{node.port}")
    browser.see_title(f"Connection 127.0.0.1:{client.port} -> 127.0.0.1:{node.port}")
