"""The administration pages: users, virtual hosts, policies, limits, features, audit."""


def test_users_are_added_permitted_changed_and_deleted(browser, node, vhost):
    browser.follow("Admin")
    browser.see_title("Users")
    panel = browser.panel("Add a user")
    browser.type("Name", "anna", panel)
    browser.type("New password", "secret", panel)
    browser.press("monitoring", panel)
    browser.press("Add user", panel)
    browser.see("User anna added")
    browser.see("No access")
    browser.follow("anna")
    panel = browser.panel("Permissions")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Configure regexp", "^a", panel)
    browser.press("Set permissions", panel)
    browser.see("Permissions set")
    assert node.get(f"permissions/{vhost}/anna")["configure"] == "^a"
    panel = browser.panel("Topic permissions")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Write regexp", "^b", panel)
    browser.press("Set topic permissions", panel)
    browser.see("Topic permissions set")
    browser.press("Clear topic permissions on amq.topic")
    browser.confirm("Clear")
    browser.see("Topic permissions cleared")
    browser.go("admin", "users")
    browser.press("Delete user anna")
    browser.confirm("Delete")
    browser.see("User deleted")
    assert node.request("GET", "users/anna").status == 404


def test_tags_are_changed_and_the_password_stays(browser, node):
    node.put("users/bert", {"password": "secret", "tags": "management"})
    browser.go("admin", "users", "bert")
    panel = browser.panel("Update this user")
    browser.type("Tags", "policymaker", panel)
    browser.press("Update user", panel)
    browser.see("User bert updated")
    assert node.get("whoami", user="bert:secret")["tags"] == ["policymaker"]
    browser.choose("Password", "none", panel)
    browser.press("Update user", panel)
    browser.wait(lambda: node.get("users/bert")["password_hash"] == "", "no password")
    browser.press("Delete this user")
    browser.confirm("Delete")
    browser.see("User bert deleted")


def test_virtual_hosts_are_added_changed_and_deleted(browser, node):
    browser.go("admin", "vhosts")
    panel = browser.panel("Add a new virtual host")
    browser.type("Name", "a/b %2F", panel)
    browser.type("Description", "odd", panel)
    browser.press("Add virtual host", panel)
    browser.see("Virtual host a/b %2F added")
    browser.follow("a/b %2F")
    browser.see_title("Virtual host a/b %2F")
    browser.see_in(browser.panel("Permissions"), "guest")
    panel = browser.panel("Update this virtual host")
    browser.type("Description", "odder", panel)
    browser.press("Update virtual host", panel)
    browser.see_in(browser.panel("Overview"), "odder")
    browser.press("Start tracing")
    browser.see("Tracing started")
    assert node.get("vhosts/a%2Fb%20%252F")["tracing"]
    browser.press("Delete this virtual host")
    browser.confirm("Delete")
    browser.see_title("Virtual hosts")
    assert node.request("GET", "vhosts/a%2Fb%20%252F").status == 404


def test_policies_are_added_changed_and_deleted(browser, node, vhost):
    browser.go("admin", "policies")
    panel = browser.panel("Add / update a policy")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "short", panel)
    browser.type("Pattern", "^q", panel)
    browser.type("Definition", '{"bogus": 1}', panel)
    browser.press("Save policy", panel)
    browser.see("not recognised policy settings")
    browser.type("Definition", "", panel)
    browser.press("max-length", panel)
    browser.press("Save policy", panel)
    browser.see("Saved policy short")
    assert node.get(f"policies/{vhost}/short")["definition"] == {"max-length": 1000}
    browser.press("Update policy short")
    assert browser.control("Pattern", panel).get_attribute("value") == "^q"
    browser.type("Priority", "7", panel)
    browser.press("Save policy", panel)
    browser.wait(lambda: node.get(f"policies/{vhost}/short")["priority"] == 7, "the priority")
    browser.press("Delete policy short")
    browser.confirm("Delete")
    browser.wait(lambda: node.get(f"policies/{vhost}") == [], "that it is gone")


def test_operator_policies_are_added(browser, node, vhost):
    browser.go("admin", "operator-policies")
    panel = browser.panel("Add / update an operator policy")
    browser.choose("Virtual host", vhost, panel)
    browser.type("Name", "cap", panel)
    browser.type("Pattern", ".*", panel)
    browser.press("max-length-bytes", panel)
    browser.press("Save operator policy", panel)
    browser.see("Saved operator policy cap")
    node.put(f"queues/{vhost}/capped", {"durable": True})
    browser.go("queues", vhost, "capped")
    browser.see_in(browser.panel("Overview"), "operator policy cap")


def test_limits_are_set_and_cleared(browser, node, vhost):
    browser.go("admin", "limits")
    panel = browser.panel("Virtual host limits")
    browser.choose("Virtual host", vhost, panel)
    browser.choose("Limit", "max-queues", panel)
    browser.type("Value", "7", panel)
    browser.press("Set limit", panel)
    browser.see("Limit set")
    assert node.get(f"vhost-limits/{vhost}") == [{"vhost": vhost, "value": {"max-queues": 7}}]
    browser.press(f"Clear max-queues of {vhost}")
    browser.confirm("Clear")
    browser.see("Limit cleared")
    panel = browser.panel("User limits")
    browser.type("User", "nobody-of-this-name", panel)
    browser.type("Value", "1", panel)
    browser.press("Set limit", panel)
    browser.see("Failed")


def test_features_are_listed(browser):
    browser.go("admin", "features")
    browser.see("stream_filtering")
    browser.type("Filter", "virtual_host")
    browser.see("virtual_host_metadata")
    browser.see_not("stream_filtering")
