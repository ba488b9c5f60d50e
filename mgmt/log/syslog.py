"""Syslog: messages by RFC 3164 or RFC 5424, over UDP, TCP or TLS.

A thread sends, so that the node never waits for the syslog server. While the server cannot be
reached, up to `WAITING_MAX` messages wait in memory; later messages are lost and counted. Over TCP
and TLS each message is preceded by its length (RFC 6587, 3.4.1). The forms are those of
RabbitMQ's messages.
"""

import logging
import queue
import socket
import threading
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime

from leveret.broker.auth.backends.client_tls import client_context
from leveret.broker.config import SettingError
from leveret.broker.config.log_settings import (
    FACILITIES,
    RFC3164,
    RFC5424,
    TLS_TRANSPORTS,
    UDP,
    SyslogSettings,
)
from leveret.mgmt.log.formatting import process_of
from leveret.mgmt.log.levels import SEVERITIES, name_of

WAITING_MAX = 10_000
RETRY_SECONDS = 1.0
CONNECT_SECONDS_MAX = 5.0
CLOSE_SECONDS_MAX = 2.0
FACILITY_STEP = 8
"""A priority is eight times the facility, plus the severity."""

logger = logging.getLogger("leveret.syslog")


class Syslog(logging.Handler):
    """Sends records to syslog. Raises SettingError for settings that contradict each other."""

    def __init__(self, settings: SyslogSettings) -> None:
        super().__init__()
        self._settings = settings
        is_tls = settings.transport in TLS_TRANSPORTS
        self._protocol = settings.protocol or (RFC5424 if is_tls else RFC3164)
        if is_tls and self._protocol == RFC3164:
            raise SettingError("log.syslog_server.protocol", "rfc3164 cannot be used with TLS")
        self._facility = FACILITIES[settings.facility] * FACILITY_STEP
        self._host = socket.gethostname()
        self._sender = SyslogSender(settings)

    def emit(self, record: logging.LogRecord) -> None:
        """Send the messages of a record later."""
        try:
            for message in self.messages(record):
                self._sender.send_later(message.encode("utf-8", "replace"))
        except Exception:
            self.handleError(record)

    def messages(self, record: logging.LogRecord) -> Iterator[str]:
        """The messages of a record: one for each line, unless `multiline_mode` is set."""
        head = self._head(record)
        text = self.format(record)
        for line in [text] if self._settings.multiline_mode else text.splitlines():
            yield f"{head} - {line}"

    def _head(self, record: logging.LogRecord) -> str:
        priority = self._facility + SEVERITIES[name_of(record.levelno)]
        name, process = self._settings.identity, process_of(record)
        if self._protocol == RFC3164:
            local = datetime.fromtimestamp(record.created)
            time = f"{local:%b} {local.day:2} {local:%H:%M:%S}"
            return f"<{priority}>{time} {self._host} {name}[{record.process}] {process}"
        time = datetime.fromtimestamp(record.created, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        return f"<{priority}>1 {time} {self._host} {name} {record.process} {process}"

    def close(self) -> None:
        """Send the waiting messages, with a time limit."""
        self._sender.close()
        super().close()


class SyslogSender:
    """The thread that sends, and the messages that wait for it."""

    def __init__(self, settings: SyslogSettings) -> None:
        self._settings = settings
        self._context = None
        if settings.transport in TLS_TRANSPORTS:
            try:
                self._context = client_context(settings.tls)
            except ValueError as error:
                attribute = "certfile" if settings.tls.certfile is not None else "cacertfile"
                raise SettingError(f"log.syslog_server.tls.{attribute}", str(error)) from None
        self._waiting: queue.Queue[bytes | None] = queue.Queue(WAITING_MAX)
        self._lost = 0
        self._connected: socket.socket | None = None
        self._is_reached = True
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="syslog", daemon=True)
        self._thread.start()

    def send_later(self, message: bytes) -> None:
        """Send a message later; it is lost if too many wait."""
        try:
            self._waiting.put_nowait(message)
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        """Send the waiting messages, with a time limit, and end the thread."""
        with suppress(queue.Full):
            self._waiting.put_nowait(None)
        self._thread.join(CLOSE_SECONDS_MAX)
        self._closing.set()
        self._thread.join(CLOSE_SECONDS_MAX)

    def _run(self) -> None:
        while (message := self._waiting.get()) is not None:
            while not self._is_sent(message):
                if self._closing.wait(RETRY_SECONDS):
                    return
        if self._connected is not None:
            self._connected.close()

    def _is_sent(self, message: bytes) -> bool:
        """Send a message. False if syslog cannot be reached: the caller retries."""
        try:
            if self._connected is None:
                self._connected = self._connect()
            self._connected.sendall(self._framed(message))
        except OSError as error:
            if self._connected is not None:
                self._connected.close()
            self._connected = None
            if self._is_reached:
                self._note("syslog at %s:%d cannot be reached, trying again: %s", error)
            self._is_reached = False
            return False
        if not self._is_reached:
            self._is_reached, lost, self._lost = True, self._lost, 0
            self._note("syslog at %s:%d can be reached again; %d messages are lost", lost)
        return True

    def _note(self, text: str, fact: object) -> None:
        logger.warning(text, self._settings.host, self._settings.port, fact)

    def _framed(self, message: bytes) -> bytes:
        is_udp = self._settings.transport == UDP
        return message if is_udp else b"%d %b" % (len(message), message)

    def _connect(self) -> socket.socket:
        """A socket for sending. Raises OSError."""
        host, port = self._settings.host, self._settings.port
        if self._settings.transport == UDP:
            family, kind, number, _, address = socket.getaddrinfo(
                host, port, type=socket.SOCK_DGRAM
            )[0]
            connected = socket.socket(family, kind, number)
            connected.connect(address)
            return connected
        connected = socket.create_connection((host, port), CONNECT_SECONDS_MAX)
        if self._context is None:
            return connected
        return self._context.wrap_socket(
            connected, server_hostname=self._settings.tls.server_name or host
        )
