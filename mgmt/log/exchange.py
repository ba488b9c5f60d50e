"""The log as messages: each record is published to amq.rabbitmq.log in the default virtual host.

The routing key is the level. The exchange, a durable topic exchange for internal use, is declared
when the broker has started; earlier records, and those caused by publishing records, are not
published. Records are published in the broker's loop, in the round after they were written; a
record costs no more than a test while nothing is bound to the exchange. Source: RabbitMQ's
`rabbit_logger_exchange_h`.
"""

import asyncio
import logging
import threading
from collections import deque

from leveret.broker.amqp.content import encode_address
from leveret.broker.amqp.content_header import header_with
from leveret.broker.config.log_settings import JSON
from leveret.broker.declarations.values import PutExchange
from leveret.broker.node.broker import Broker
from leveret.broker.queues.contract.publication import publication_of
from leveret.broker.runtime.pending_in_task import in_task
from leveret.broker.vhost.binding import Exchange
from leveret.broker.vhost.routing import publish
from leveret.broker.vhost.virtual_host import VirtualHost
from leveret.mgmt.log.levels import name_of
from leveret.storage.messages.message import Address, Message

LOG_EXCHANGE = "amq.rabbitmq.log"
WAITING_MAX = 10_000
"""How many records may wait to be published; beyond that the oldest are lost."""

logger = logging.getLogger("leveret")


class LogExchange(logging.Handler):
    """Publishes records. form: `plaintext` or `json`, for the content type."""

    def __init__(self, form: str) -> None:
        super().__init__()
        self._content_type = "application/json" if form == JSON else "text/plain"
        self._broker: Broker | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._waiting: deque[logging.LogRecord] = deque(maxlen=WAITING_MAX)
        self._publishing_in: int | None = None

    async def attach(self, broker: Broker) -> None:
        """Publish to this broker from now on; declare the exchange there."""
        name = broker.config.default_vhost
        if name not in broker.services.vhosts:
            logger.error("the log is not published: there is no virtual host '%s'", name)
            return
        put = PutExchange(name, LOG_EXCHANGE, "topic", durable=True, internal=True)
        await in_task(broker.services.declarations.submit(put))
        self._broker, self._loop = broker, asyncio.get_running_loop()
        logger.info("Logging to exchange '%s' in vhost '%s' ready", LOG_EXCHANGE, name)

    def detach(self) -> None:
        """Stop publishing: the broker stops."""
        self._broker = None
        self._waiting.clear()

    def emit(self, record: logging.LogRecord) -> None:
        """Publish a record later, if it can reach a queue."""
        if self._loop is None or self._publishing_in == threading.get_ident():
            return
        exchange = self._exchange()
        if exchange is None or not (exchange.bindings or exchange.alternate is not None):
            return
        self._waiting.append(record)
        if len(self._waiting) == 1:
            self._loop.call_soon_threadsafe(self._publish_all)

    def _vhost(self) -> VirtualHost | None:
        broker = self._broker
        return None if broker is None else broker.services.vhosts.get(broker.config.default_vhost)

    def _exchange(self) -> Exchange | None:
        vhost = self._vhost()
        return None if vhost is None else vhost.exchanges.get(LOG_EXCHANGE)

    def _publish_all(self) -> None:
        self._publishing_in = threading.get_ident()
        try:
            while self._waiting:
                record = self._waiting.popleft()
                try:
                    self._publish(record)
                except Exception:
                    self.handleError(record)
        finally:
            self._publishing_in = None

    def _publish(self, record: logging.LogRecord) -> None:
        vhost, exchange = self._vhost(), self._exchange()
        if vhost is None or exchange is None:
            return
        assert self._broker is not None
        key = name_of(record.levelno)
        header = header_with(
            content_type=self._content_type,
            headers={"node": ("S", self._broker.config.node_name)},
            timestamp=int(record.created),
        )
        address = Address(LOG_EXCHANGE, key, encode_address(LOG_EXCHANGE, key))
        body = f"{self.format(record)}\n".encode("utf-8", "replace")
        publish(vhost, exchange, publication_of([Message(address, header, body)]), [key])
