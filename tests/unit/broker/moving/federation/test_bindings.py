"""How the bindings of a federated exchange are sent to its upstream."""

import asyncio
from types import SimpleNamespace

import pytest
from pamqp import commands

from leveret.broker.moving.federation.bindings import SLICE, UNANSWERED_MAX, BindingPropagation
from leveret.broker.moving.federation.upstream_bindings import UpstreamBindings


class Channel:
    """The channel to the upstream. sent: verbs and keys. unanswered: the most before an answer."""

    def __init__(self):
        self.sent, self.unanswered, self.answers = [], 0, 0
        self._waiting = 0

    def send_unanswered(self, method, **arguments):
        self._note(method, arguments)
        self._waiting += 1
        self.unanswered = max(self.unanswered, self._waiting)

    async def call(self, method, **arguments):
        self._note(method, arguments)
        self._waiting = 0
        self.answers += 1

    def _note(self, method, arguments):
        verb = "bind" if method is commands.Exchange.Bind else "unbind"
        assert (arguments["source"], arguments["destination"]) == ("x", "internal")
        self.sent.append((verb, arguments["routing_key"]))


def binding(key, queue="q"):
    destination = SimpleNamespace(name=queue)
    return SimpleNamespace(
        destination_kind="queue", destination=destination, routing_key=key, arguments={}
    )


class Propagating:
    """The bindings of an exchange, with these keys at first."""

    def __init__(self, *keys, waits=True):
        self.exchange = SimpleNamespace(
            bindings={key: binding(key) for key in keys}, watchers=(), is_deleted=False
        )
        self.channel = Channel()
        wanted = UpstreamBindings(1, "here", "/", "/:x A", "up", "/")
        self.propagation = BindingPropagation(
            self.exchange, self.channel, "x", "internal", wanted, waits=waits
        )


KEYS = [f"key.{number}" for number in range(2500)]


@pytest.mark.parametrize(
    ("waits", "unanswered", "answers"),
    [(True, SLICE - 1, len(KEYS) // SLICE), (False, UNANSWERED_MAX - 1, 2)],
)
async def test_very_many_bindings_have_an_answer_now_and_then(waits, unanswered, answers):
    it = Propagating(*KEYS, waits=waits)
    await it.propagation.send_all()
    assert it.channel.sent == [("bind", key) for key in KEYS]
    assert (it.channel.unanswered, it.channel.answers) == (unanswered, answers)


async def test_changes_are_sent_in_their_order_as_they_come():
    it = Propagating("first")
    await it.propagation.send_all()
    following = asyncio.ensure_future(it.propagation.follow())
    (watcher,) = it.exchange.watchers
    watcher.binding_added(binding("late"))
    watcher.binding_added(binding("late", "other queue"))
    watcher.binding_removed(binding("first"))
    while len(it.channel.sent) < 3:
        await asyncio.sleep(0)
    assert it.channel.sent == [("bind", "first"), ("bind", "late"), ("unbind", "first")]
    following.cancel()
    it.propagation.stop()
    assert it.exchange.watchers == ()


async def test_bindings_that_go_with_their_exchange_are_left_to_the_end_of_the_link():
    it = Propagating("first")
    await it.propagation.send_all()
    it.exchange.is_deleted = True
    it.propagation.binding_removed(binding("first"))
    await it.propagation.send_all()
    assert it.channel.sent == [("bind", "first")]
