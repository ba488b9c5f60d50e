"""The page of shovels: adding one, seeing why it does not run, restarting and deleting it."""

from tests.ports import free_port


def test_a_shovel_is_added_seen_restarted_and_deleted(browser, node, vhost):
    node.put(f"queues/{vhost}/from", {"durable": True})
    node.publish(vhost, "from", "x")
    browser.go("admin", "shovels")
    browser.see_title("Shovels")
    panel = browser.panel("Add a new shovel")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "mine", panel)
    browser.type("Source URI", f"amqp:///{vhost}", panel)
    browser.type("Source queue", "from", panel)
    browser.type("Destination URI", f"amqp:///{vhost}", panel)
    browser.type("Destination queue", "to", panel)
    browser.press("Add shovel", panel)
    browser.see("Shovel mine added")
    value = node.get(f"parameters/shovel/{vhost}/mine")["value"]
    assert (value["src-queue"], value["dest-queue"], value["ack-mode"]) == (
        "from", "to", "on-confirm"
    )  # fmt: skip
    shovels = browser.panel("All shovels")
    browser.see_in(shovels, "running")
    browser.see_in(shovels, "queue to")
    node.wait_until(lambda: node.get(f"queues/{vhost}/to").get("messages") == 1, "it is moved")
    browser.press("Restart shovel mine")
    browser.see("Shovel mine restarted")
    browser.press("Delete shovel mine")
    browser.confirm("Delete")
    browser.see("Shovel deleted")
    assert node.get(f"parameters/shovel/{vhost}") == []


def test_it_says_why_a_shovel_does_not_run(browser, node, vhost):
    value = {
        "src-uri": f"amqp://127.0.0.1:{free_port()}", "src-queue": "a", "dest-uri": "amqp://",
        "reconnect-delay": 3600,
    }  # fmt: skip
    assert node.put(f"parameters/shovel/{vhost}/broken", {"value": value}).status == 201
    browser.go("admin", "shovels")
    shovels = browser.panel("All shovels")
    browser.see_in(shovels, "terminated")
    browser.see_in(shovels, "failed to connect to source")
    node.delete(f"shovels/vhost/{vhost}/broken")
