"""Requests and direct replies in a simulated broker."""

from tests.analytics.incidents.simulated_clients import ACK


def server(day, queue, takes_s, tag, **options):
    """A consumer that replies to each request when it has worked on it."""

    def ends(entry, _now_s):
        reply_to = entry.message.properties["reply_to"]
        day.broker.publish(consumer.who, "", reply_to, 50)
        return ACK

    consumer = day.consumer(queue, takes_s=takes_s, tag=tag, ends=ends, user="server", **options)
    return consumer


def requesters(day, queue, times_s, waits_s):
    """Clients that each send a request, and close their connections after a time."""
    broker = day.broker

    def begin():
        who = broker.connection("web", "10.0.0.6")
        number = who["connection"].split(":")[1].split()[0]
        reply_to = f"amq.rabbitmq.reply-to.g1h_{number}.1"
        broker.write("open", **{**who, "channel": 0})
        broker.publish(who, "", queue, 100, {"reply_to": reply_to, "correlation_id": number})
        broker.at(broker.now_s + waits_s, lambda: broker.write("close", **{**who, "channel": 0}))

    for at_s in times_s:
        day.at(at_s, begin)
