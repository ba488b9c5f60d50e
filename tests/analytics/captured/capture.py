"""The traffic that is logged in rabbitmq-3.10.text.log and rabbitmq-3.10.json.log.

The logs were written by RabbitMQ 3.10.8 with its plugin rabbitmq_tracing, by running

    python tests/analytics/captured/capture.py localhost 5672 15672 TRACE_DIRECTORY

as guest, where TRACE_DIRECTORY is the plugin's directory (/var/tmp/rabbitmq-tracing). The node's
name was replaced by rabbit@host. test_captured_logs.py has the expected facts.
"""

import base64
import json
import re
import shutil
import sys
import time
import urllib.request
from pathlib import Path

import pika

ODD_QUEUE = 'q "ü" \\ x'
BAR = "=" * 80
ALMOST = f"first\n\n{BAR}\nMessage published\n\nNode:         x\n"
ALL_PROPERTIES = {
    "content_type": "text/plain", "content_encoding": "utf-8", "delivery_mode": 2, "priority": 5,
    "correlation_id": "c-1", "reply_to": "answers", "expiration": "60000", "message_id": "all",
    "timestamp": 1_772_366_400, "type": "kind", "user_id": "guest", "app_id": "capture",
    "headers": {"text": "Zoë", "number": -7, "yes": True, "none": None,
                "list": [1, "two", {"x": 1}],
                "message_id": "not this one", "deep": {"message_id": "nor this one"}},
}  # fmt: skip
LONG_ID = "long-" + "0123456789" * 12


class Api:
    """The management plugin's API."""

    def __init__(self, host, port):
        self._url = f"http://{host}:{port}/api/"
        self._login = base64.b64encode(b"guest:guest").decode()

    def send(self, method, path, body=None):
        headers = {"Authorization": f"Basic {self._login}", "Content-Type": "application/json"}
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self._url + path, data, headers, method=method)
        with urllib.request.urlopen(request) as answer:
            return answer.read()


def declare(channel):
    channel.exchange_declare("orders", "topic")
    channel.exchange_declare("letters", "direct")
    for queue in ("orders", "audit", "letters.to", "letters.cc", "letters.bcc", ODD_QUEUE):
        channel.queue_declare(queue)
    channel.queue_bind("orders", "orders", "order.*")
    channel.queue_bind("audit", "orders", "order.new")
    for key in ("to", "cc", "bcc"):
        channel.queue_bind(f"letters.{key}", "letters", key)


def publish(channel):
    """Publish sixteen messages, of which two are unroutable."""

    def send(exchange, key, body, mandatory=False, **properties):
        if isinstance(body, str):
            body = body.encode()
        channel.basic_publish(
            exchange, key, body, pika.BasicProperties(**properties), mandatory=mandatory
        )

    send("orders", "order.new", "hello", message_id="m-1", headers={"tries": 3})
    send("orders", "order.new", "naïve ☃ 日本", message_id="m-ü-☃")
    send("orders", "order.old", bytes(range(256)), message_id="binary")
    send("orders", "order.old", BAR, message_id="bar")
    send("orders", "order.old", f"a\n{BAR}\nb\n{BAR}\n", message_id="bars")
    send("orders", "order.old", ALMOST, message_id="almost an entry")
    send("orders", "order.old", "Payload: \nX\r\n\n\n", message_id='"quoted" \\ back')
    send("orders", "order.old", "all", **ALL_PROPERTIES)
    send("orders", "order.old", "", message_id=LONG_ID)
    for _ in range(2):
        send("", "orders", "nobody knows me")
    send("letters", "to", "x" * 100, message_id="copied",
         headers={"CC": ["cc"], "BCC": ["bcc"]})  # fmt: skip
    send("orders", "nowhere", "lost", message_id="lost")
    send("orders", "nowhere", "back", message_id="returned", mandatory=True)
    send("", ODD_QUEUE, "odd", message_id="odd")
    send("", "letters.to", "again", message_id="again")


def consume(channel):
    """Consume `orders` with acks, `audit` without; some messages more than once."""
    while (found := channel.basic_get("orders"))[0] is not None:
        channel.basic_ack(found[0].delivery_tag)
    while channel.basic_get("audit", auto_ack=True)[0] is not None:
        pass
    channel.basic_get("letters.cc", auto_ack=True)
    channel.basic_get(ODD_QUEUE, auto_ack=True)
    copied = channel.basic_get("letters.to")[0]
    channel.basic_reject(copied.delivery_tag, requeue=True)
    channel.basic_ack(channel.basic_get("letters.to")[0].delivery_tag)
    channel.basic_get("letters.to", auto_ack=True)


def capture(kind, api, address, directory):
    """Capture the traffic once, in a vhost named after the format of the trace."""
    clients = [pika.BlockingConnection(address) for _ in range(2)]
    publisher, consumer = [client.channel() for client in clients]
    declare(publisher)
    trace = {"format": kind, "pattern": "#", "max_payload_bytes": 100_000}
    api.send("PUT", f"traces/{kind}/captured", trace)
    publish(publisher)
    publisher.queue_declare("orders", passive=True)
    consume(consumer)
    time.sleep(3)
    api.send("DELETE", f"traces/{kind}/captured")
    target = Path(__file__).with_name(f"rabbitmq-3.10.{kind}.log")
    shutil.move(Path(directory) / "captured.log", target)
    target.write_bytes(re.sub(rb"\w+@[\w.-]+", b"rabbit@host", target.read_bytes()))
    for client in clients:
        client.close()


def main(host, port, http_port, directory):
    api = Api(host, http_port)
    for kind in ("text", "json"):
        api.send("PUT", f"vhosts/{kind}")
        capture(kind, api, pika.ConnectionParameters(host, int(port), kind), directory)
        api.send("DELETE", f"vhosts/{kind}")


if __name__ == "__main__":
    main(*sys.argv[1:])
