"""AMQP 1.0: the firehose has records of what its clients publish and get, as of other clients."""

from tests.protocol.amqp10_peer import Amqp10Node


def plain(pairs):
    return {key.value: value.value for key, value in pairs}


def records(received):
    """The keys of the records, and their facts that a client of AMQP 1.0 can be shown."""
    return [
        (
            plain(message.message_annotations)["x-routing-key"],
            plain(message.application_properties),
        )
        for _, message in received
    ]


async def test_the_firehose_has_messages_of_amqp_1_0():
    async with Amqp10Node() as node:
        observer, client = await node.client(), await node.client()
        await observer.consumer("/exchange/amq.rabbitmq.trace/#")
        vhost = node.broker.services.vhosts["/"]
        await client.publisher("/queue/q")
        await client.consumer("/queue/q", 1)
        node.broker.tracing.set_firehose(vhost, True)
        await client.publish("m")
        published, delivered = records(await observer.received())[:2]
    assert (published[0], delivered[0]) == ("publish.", "deliver.q")
    assert published[1]["user"] == "guest"
    assert published[1]["connection"] == delivered[1]["connection"] == client.connection.name
    assert (published[1]["exchange_name"], delivered[1]["redelivered"]) == ("", 0)
