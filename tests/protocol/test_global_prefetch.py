"""A prefetch limit that the consumers of a channel share: every queue of them has its turn."""

from pamqp import commands

from tests.protocol.raw_client import opened, wait_until_read


def test_queues_that_share_a_limit_take_turns(broker):
    with opened(broker) as client:
        limit = {"prefetch_count": 1, "global_": True}
        client.call(1, commands.Basic.Qos, commands.Basic.QosOk, **limit)
        queues = ("one", "two", "three")
        for queue in queues:
            client.declare(queue)
            client.consume(queue, consumer_tag=queue)
        for queue in (queue for queue in queues for _ in range(4)):
            client.publish(1, queue, b"x")
        # Only then do all queues have messages, and the order does not depend on when they came.
        wait_until_read(broker, client)
        seen = []
        for _ in range(12):
            delivered = client.read_content(1, commands.Basic.Deliver)
            seen.append(delivered.method.consumer_tag)
            client.send_method(1, commands.Basic.Ack, delivery_tag=delivered.method.delivery_tag)
    assert seen == [*queues] * 4
