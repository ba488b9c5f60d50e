"""STOMP 1.2 beside RabbitMQ.

    python -m tests.bench.stomp_figures [NAME ...] [--rounds 1] [--tree TREE] [--without-rabbitmq]

The generator is stomp_load.c, one thread for all clients. Messages have 256 bytes.

    one        one publisher, one subscriber of a queue
    safe       the same, persistent messages with receipts; the publisher lacks 200 at most, and the
               subscriber acknowledges each, and has a prefetch count of 200
    fan-out    one publisher, 100 subscribers of a topic
    fan-in     100 publishers, one subscriber of a queue
"""

from __future__ import annotations

from pathlib import Path

from .protocol_figures import Listening, Row, main

PAYLOAD_BYTES = 256
WINDOW = 200


def _row(
    destination: str, publishers: int, subscribers: int, messages: int, is_safe: bool = False
) -> list[Row]:
    """messages: of each publisher."""
    words = (
        publishers, subscribers, messages, PAYLOAD_BYTES, destination, int(is_safe), WINDOW
    )  # fmt: skip
    return [Row("     ", words, publishers * subscribers * messages)]


ROWS = {
    "one": _row("/queue/load", 1, 1, 100_000),
    "safe": _row("/queue/load", 1, 1, 100_000, is_safe=True),
    "fan-out": _row("/topic/load", 1, 100, 2_000),
    "fan-in": _row("/queue/load", 100, 1, 1_000),
}
STOMP = Listening("rabbitmq_stomp", "stomp", 61613, Path(__file__).with_name("stomp_load.c"))

if __name__ == "__main__":
    main("stomp_figures", STOMP, ROWS)
