"""The queues of delayed message exchanges: declared with them, or refused with a reason."""

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.exchanges.delayed import DELAYED_MESSAGES_FEATURE
from leveret.broker.queues.contract.queue_factory import QueueFactory
from leveret.broker.queues.quorum_kind import QUORUM_QUEUE
from leveret.broker.registry.contents import contents
from tests.declaring import Declared
from tests.unit.broker.vhost.dead_letters.test_worker import KeepingQueue
from tests.unit.broker.vhost.test_virtual_host import exchange

TYPE = "x-delayed-message"
ARGUMENTS = {"x-delayed-type": ("S", "direct"), "x-delayed-queue-type": ("S", "quorum")}


@pytest.fixture
def declared():
    return Declared()


@pytest.fixture
def vhost(declared):
    vhost = declared.vhost()
    vhost.kinds.add(QueueFactory(QUORUM_QUEUE, KeepingQueue))
    return vhost


def refused(vhost, kind=TYPE, durable=True, **changes):
    arguments = ARGUMENTS | {f"x-delayed-{name.replace('_', '-')}": value
                             for name, value in changes.items()}  # fmt: skip
    with pytest.raises(ChannelFault) as fault:
        exchange(vhost, "later", kind, durable=durable, arguments=arguments)
    assert (vhost.delaying_queues, "later" in vhost.exchanges) == ({}, False)
    assert fault.value.reply_code == 406
    return fault.value.explanation


@pytest.mark.parametrize("value", [("S", "stream"), ("I", 1), ("S", "")])
def test_only_two_values_are_accepted(vhost, value):
    assert "must be one of classic, quorum, and is" in refused(vhost, queue_type=value)


def test_other_types_do_not_have_the_argument(vhost):
    said = refused(vhost, "direct")
    assert "it is for exchanges of the type x-delayed-message, and not of the type direct" in said


def test_the_exchange_must_be_durable(vhost):
    assert "invalid property 'non-durable' for exchange 'later'" in refused(vhost, durable=False)


def test_the_node_must_serve_quorum_queues(declared):
    assert "this node does not serve quorum queues" in refused(declared.vhost())


def test_all_nodes_must_have_the_feature(vhost):
    vhost.features.lacking = lambda feature: ["old@host"] if feature else []
    said = refused(vhost)
    assert f"node old@host does not have the feature {DELAYED_MESSAGES_FEATURE}" in said


def test_an_exchange_that_exists_needs_no_check(declared, vhost):
    exchange(vhost, "later", TYPE, durable=True, arguments=ARGUMENTS)
    (queue,) = vhost.delaying_queues.values()
    vhost.features.lacking = lambda feature: ["old@host"]
    exchange(vhost, "later", TYPE, durable=True, arguments=ARGUMENTS)
    assert list(vhost.delaying_queues.values()) == [queue]


def test_another_node_gets_both_and_an_empty_vhost_has_neither(declared, vhost):
    exchange(vhost, "later", TYPE, durable=True, arguments=ARGUMENTS)
    names = [getattr(it, "name", "") for it in contents(declared.registry)]
    assert {"later", "amq.delayed-later"} <= set(names)
