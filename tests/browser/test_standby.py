"""The page of the standby: following an upstream, its state, the banner, and the promotion."""

import pytest

from tests.browser.browser import Browser
from tests.mgmt.standby_nodes import ROUTE, declare, follow, has, two_nodes, wait_for_state


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    found = two_nodes(tmp_path_factory.mktemp)
    yield found
    for one in found:
        one.stop()


@pytest.fixture
def upstream(pair):
    return pair[0]


@pytest.fixture
def standby(pair):
    yield pair[1]
    pair[1].delete(ROUTE)


@pytest.fixture
def page(standby, driver):
    driver.set_window_size(1280, 900)
    browser = Browser(driver, standby)
    browser.begin()
    browser.go("admin", "standby")
    browser.see_title("Standby")
    yield browser
    assert browser.errors() == []


def test_an_upstream_is_followed_and_the_standby_promoted(page, upstream, standby):
    declare(upstream, "q")
    page.see_in(page.panel("State"), "off")
    panel = page.panel("Follow an upstream")
    page.type("Endpoints", f"127.0.0.1:{upstream.http_port}", panel)
    page.type("Username", "guest", panel)
    page.type("Password", "guest", panel)
    page.press("Follow", panel)
    page.see("The upstream is followed")
    page.see_in(page.panel("State"), "syncing")
    assert standby.get(ROUTE)["upstream"]["local_users"] == ["guest"]
    page.go("queues")
    page.see(f"This cluster is a standby of http://127.0.0.1:{upstream.http_port}")
    page.see("q")
    page.go("admin", "standby")
    page.press("Disable")
    page.see("following is disabled")
    page.press("Promote")
    page.confirm("Promote")
    page.see("Promoted: this cluster is a standby no more")
    page.see_not("This cluster is a standby of")
    page.press("Forget the upstream")
    page.confirm("Forget the upstream")
    page.see_in(page.panel("State"), "off")


def test_kept_objects_are_listed_and_held_queues_accepted(page, upstream, standby):
    declare(upstream, "full", *(f"q{number}" for number in range(9)))
    follow(standby, upstream)
    standby.wait_until(lambda: has(standby, "queues", "full"), "they are followed")
    standby.publish("/", "full", "precious")
    for queue in ("full", *(f"q{number}" for number in range(9))):
        upstream.delete(f"queues/%2F/{queue}")
    wait_for_state(standby, "held")
    page.see("it is held, and waits for an operator")
    page.press("Accept")
    page.confirm("Accept")
    page.see_in(page.panel("Kept objects"), "has messages")
    standby.delete("queues/%2F/full")


def test_why_it_does_not_follow_is_shown(page, upstream, standby):
    follow(standby, upstream, password="wrong")
    wait_for_state(standby, "failed")
    page.see_in(page.panel("State"), "refuses user 'guest'")
    page.see("it cannot follow now")
