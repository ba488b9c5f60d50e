"""A real broker inside a test: started in milliseconds, without a data directory, on a free port.

    async with EmbeddedBroker() as broker:
        connection = await aio_pika.connect(broker.url)

    with EmbeddedBroker.in_thread() as broker:
        connection = pika.BlockingConnection(pika.URLParameters(broker.url))

It also does what only a test wants: time that is moved by hand (`virtual_clock=True`, `advance`),
faults on demand (`drop_connections`, `drop_after_frames`, `hold_confirms`, `block_publishers`), and
a record of what was published and delivered. docs/start/testing-your-app.md shows each of them.
"""

from leveret.testing.embedded import EmbeddedBroker, ThreadedBroker
from leveret.testing.records import RecordedMessage
from leveret.testing.serving import LOOPBACK

__all__ = ["LOOPBACK", "EmbeddedBroker", "RecordedMessage", "ThreadedBroker"]
