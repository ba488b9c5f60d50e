"""What management shows of a quorum queue beside what it shows of every queue."""

from leveret.broker.runtime.pending import Answer
from leveret.cluster.quorum.machine.commands import Configure, DelayedRetry, Options
from leveret.mgmt.views.quorum import quorum_fields
from tests.unit.broker.queues.fakes import publish
from tests.unit.cluster.quorum.group_of_one import Use

RETRIES = {
    "delayed_retry": DelayedRetry.ALL, "delayed_retry_min_ms": 500, "delayed_retry_max_ms": 500,
}  # fmt: skip


def shown(options, returns=1):
    """The fields of a queue of four messages, of which some were returned."""
    use = Use()
    use.group.propose(Configure(options))
    publish(use.queue, *[b"x"] * 4)
    held = [use.asked(use.queue.get, True).entry for _ in range(returns)]
    for entry in held:
        use.queue.requeue([entry])
    use.settle()
    answer = Answer()
    use.queue.ask_status(answer)
    status = answer.result().status
    assert status.counts.messages == 4
    assert (status.storage.ram, status.storage.ram_bytes) == (0, 0)
    return quorum_fields(status.quorum, status.counts.delayed), use.vhost.clock.now_ms()


def test_rules_of_3_have_no_field():
    assert shown(Options())[0] == {}


def test_rules_of_3_show_delayed_retries_of_a_queue_that_has_them():
    fields, now_ms = shown(Options(delivery_limit=5, **RETRIES))
    assert fields == {
        "delivery_limit": 5, "messages_delayed": 1, "delayed_retry": "all (min: 500ms, max: 500ms)",
        "next_delayed_at": now_ms + 500, "last_delayed_at": now_ms + 500,
    }  # fmt: skip


def test_rules_of_4_0_have_two_priorities():
    assert shown(Options(priorities=2, delivery_limit=20))[0] == {
        "delivery_limit": 20, "messages_ready_returned": 1, "messages_ready_high": 0,
        "messages_ready_normal": 3,
    }  # fmt: skip


def test_rules_of_4_3_have_32_and_delayed_messages():
    fields, now_ms = shown(Options(priorities=32, **RETRIES), returns=2)
    assert fields == {
        "delivery_limit": "unlimited", "messages_ready_returned": 0,
        "messages_by_priority": {"4": 2}, "messages_active_priorities": 1, "messages_delayed": 2,
        "delayed_retry": "all (min: 500ms, max: 500ms)",
        "next_delayed_at": now_ms + 500, "last_delayed_at": now_ms + 500,
    }  # fmt: skip
