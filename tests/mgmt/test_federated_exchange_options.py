"""What policies and upstreams say of a federated exchange, each with two real nodes."""

import pika
import pytest

from tests.mgmt.federated_exchanges import (
    at,
    bound_queue,
    keys_at,
    link_objects,
    names_at,
    vhost_at,
)
from tests.mgmt.test_shovels import channel_of, dashed, take_all

BODIES = [b"%d" % number for number in range(300)]


class Sources:
    """Vhosts at the other node, each with an exchange `x`, and channels to them."""

    def __init__(self, far, vhost):
        self._far, self._vhost = far, vhost
        self.vhosts, self.channels = {}, {}
        for name in ("one", "two"):
            self.vhosts[name] = f"{vhost}-{name}"
            vhost_at(far, self.vhosts[name])
            self.channels[name] = channel_of(far, self.vhosts[name])
            self.channels[name].exchange_declare("x", "topic", durable=True)

    def uri(self, name):
        return at(self._far, self.vhosts[name])

    def keys(self, name, exchange="x"):
        return keys_at(self._far, self.vhosts[name], exchange)

    def objects(self, name):
        return link_objects(self._far, self.vhosts[name])

    def publish(self, name, body, exchange="x", **properties):
        self.channels[name].basic_publish(exchange, "k", body, pika.BasicProperties(**properties))

    def wait_for_links(self, *names):
        """These have a link with the binding, and no others have anything of a link."""
        self._far.wait_until(
            lambda: all(
                self.keys(name) == ["k"] if name in names else not self.objects(name)
                for name in self.vhosts
            ),
            f"{names} have links",
        )

    def close(self):
        for vhost in self.vhosts.values():
            self._far.delete(f"vhosts/{vhost}")


@pytest.fixture
def sources(far, vhost):
    sources = Sources(far, vhost)
    yield sources
    sources.close()


@pytest.fixture
def here(node, vhost, channel, sources):
    """The vhost of the federated exchange."""
    bound_queue(channel, "k")
    return Here(node, vhost, channel)


class Here:
    """The vhost of the federated exchange `x`, which is bound to `q`."""

    def __init__(self, node, vhost, channel):
        self.node, self.vhost, self.channel = node, vhost, channel

    def upstream(self, name, uri, **options):
        value = {"uri": uri, "reconnect-delay": 0.2, **dashed(options)}
        self.set_parameter("federation-upstream", name, value)

    def set_parameter(self, component, name, value):
        answer = self.node.put(f"parameters/{component}/{self.vhost}/{name}", {"value": value})
        assert answer.status in (201, 204), answer

    def policy(self, pattern="^x$", **definition):
        body = {"pattern": pattern, "definition": dashed(definition), "apply-to": "exchanges"}
        assert self.node.put(f"policies/{self.vhost}/p", body).status in (201, 204)

    def links(self):
        return self.node.get(f"federation-links/{self.vhost}")

    def take(self, count):
        found = []
        self.node.wait_until(
            lambda: found.extend(take_all(self.channel, "q")) or len(found) >= count, "they come"
        )
        return found


@pytest.mark.parametrize(
    ("definition", "names"),
    [
        ({"federation_upstream": "west-one"}, ["one"]),
        ({"federation_upstream_pattern": "^west-"}, ["one", "two"]),
        ({"federation_upstream_pattern": "two$"}, ["two"]),
        ({"federation_upstream_set": "all"}, ["one", "two"]),
        ({"federation_upstream_set": "mine"}, ["two"]),
    ],
)
def test_a_policy_names_an_upstream_a_set_or_a_pattern(here, sources, definition, names):
    for name in ("one", "two"):
        here.upstream(f"west-{name}", sources.uri(name))
    here.set_parameter("federation-upstream-set", "mine", [{"upstream": "west-two"}])
    here.policy(**definition)
    sources.wait_for_links(*names)
    for name in ("one", "two"):
        sources.publish(name, name.encode())
    assert sorted(here.take(len(names))) == [name.encode() for name in names]


def test_a_changed_policy_moves_the_link(here, sources):
    for name in ("one", "two"):
        here.upstream(name, sources.uri(name))
    here.policy(federation_upstream="one")
    sources.wait_for_links("one")
    here.policy(federation_upstream="two")
    sources.wait_for_links("two")
    here.policy(pattern="^other$", federation_upstream="two")
    sources.wait_for_links()


def test_a_changed_upstream_or_set_restarts_the_link(here, sources):
    here.upstream("u", sources.uri("one"))
    here.policy(federation_upstream_set="mine")
    here.set_parameter("federation-upstream-set", "mine", [{"upstream": "u"}])
    sources.wait_for_links("one")
    here.upstream("u", sources.uri("two"))
    sources.wait_for_links("two")
    sources.publish("two", b"from two")
    assert here.take(1) == [b"from two"]
    member = {"upstream": "u", "exchange": "other"}
    here.set_parameter("federation-upstream-set", "mine", [member])
    here.node.wait_until(lambda: sources.keys("two", "other") == ["k"], "the other is bound")
    here.node.wait_until(lambda: sources.keys("two") == [], "the first is not")
    sources.publish("two", b"from other", exchange="other")
    assert here.take(1) == [b"from other"]


@pytest.mark.parametrize(("is_trusted", "user_id"), [(True, "guest"), (False, None)])
def test_user_ids_come_from_upstreams_that_are_trusted(here, sources, is_trusted, user_id):
    here.upstream("u", sources.uri("one"), trust_user_id=is_trusted)
    here.policy(federation_upstream="u")
    sources.wait_for_links("one")
    sources.publish("one", b"body", user_id="guest")
    got = []
    here.node.wait_until(
        lambda: got.append(here.channel.basic_get("q", auto_ack=True)) or got[-1][0], "it comes"
    )
    assert got[-1][1].user_id == user_id


@pytest.mark.parametrize("ack_mode", ["on-confirm", "on-publish", "no-ack"])
def test_all_messages_come_in_their_order(here, sources, far, ack_mode):
    here.upstream("u", sources.uri("one"), ack_mode=ack_mode, prefetch_count=20)
    here.policy(federation_upstream="u")
    sources.wait_for_links("one")
    for body in BODIES:
        sources.publish("one", body)
    assert here.take(len(BODIES)) == BODIES
    vhost = sources.vhosts["one"]
    (queue,) = names_at(far, vhost, "queues")
    path = f"queues/{vhost}/{queue.replace(' ', '%20')}"
    far.wait_until(lambda: far.get(path)["messages"] == 0, "all are acknowledged")


@pytest.mark.parametrize(("mode", "count"), [("single", 1), ("multiple", 2)])
def test_bindings_may_share_the_channel_of_the_messages(here, sources, far, mode, count):
    here.upstream("u", sources.uri("one"), channel_use_mode=mode)
    here.policy(federation_upstream="u")
    sources.wait_for_links("one")

    def channels():
        return [one for one in far.get("channels") if one["vhost"] == sources.vhosts["one"]]

    # One is the publisher's.
    far.wait_until(lambda: len(channels()) == count + 1, "the expected channels are open")
    here.channel.queue_bind("q", "x", "late")
    far.wait_until(lambda: sources.keys("one") == ["k", "late"], "a binding comes")


def test_bindings_may_be_sent_without_waiting_for_answers(here, sources):
    here.upstream("u", sources.uri("one"), bind_nowait=True)
    here.policy(federation_upstream="u")
    sources.wait_for_links("one")
    here.channel.queue_bind("q", "x", "late")
    here.channel.queue_unbind("q", "x", "k")
    here.node.wait_until(lambda: sources.keys("one") == ["late"], "bindings come and go")


def test_what_a_link_has_declared_may_stay(here, sources):
    here.upstream("u", sources.uri("one"), resource_cleanup_mode="never")
    here.policy(federation_upstream="u")
    sources.wait_for_links("one")
    declared = sources.objects("one")
    here.node.delete(f"policies/{here.vhost}/p")
    here.node.wait_until(lambda: here.links() == [], "the link has gone")
    sources.publish("one", b"waits")
    assert sources.objects("one") == declared
    here.policy(federation_upstream="u")
    assert here.take(1) == [b"waits"]


def test_messages_of_a_links_queue_and_the_queue_may_expire(here, sources, far):
    here.upstream("u", sources.uri("one"), expires=600_000, message_ttl=60_000)
    here.policy(federation_upstream="u")
    sources.wait_for_links("one")
    (queue,) = far.get(f"queues/{sources.vhosts['one']}")
    limits = {"x-expires": 600_000, "x-message-ttl": 60_000}
    assert queue["arguments"] == {**limits, "x-internal-purpose": "federation"}


def test_an_exchange_that_is_deleted_upstream_is_declared_again(here, sources):
    here.upstream("u", sources.uri("one"))
    here.policy(federation_upstream="u")
    sources.wait_for_links("one")
    sources.channels["one"].exchange_delete("x")
    here.channel.queue_bind("q", "x", "late")
    here.node.wait_until(lambda: sources.keys("one") == ["k", "late"], "both are bound again")
    sources.publish("one", b"body")
    assert here.take(1) == [b"body"]
