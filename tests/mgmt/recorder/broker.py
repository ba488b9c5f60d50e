"""Any broker with RabbitMQ's HTTP API, spoken to as plainly as HTTP allows.

Requests go out as they are written in a scenario: paths percent-encoded by hand, bodies that are no
JSON, methods that nothing allows. One connection is kept, since a run makes a thousand requests.
"""

import base64
import http.client
import json
import time
from typing import Any, NamedTuple

ANSWER_SECONDS = 30
SETTLE_SECONDS = 30
CHOSEN_HEADERS = ("Allow", "Cache-Control", "Content-Type", "Location", "WWW-Authenticate")


class Answer(NamedTuple):
    """What was answered. body: the JSON, or the text if it is none; None if there is nothing."""

    status: int
    headers: dict[str, str]
    body: Any


class Broker:
    """Where a broker's AMQP and HTTP listeners are; and its node's name, which it tells itself."""

    def __init__(self, amqp_port: int, http_port: int) -> None:
        self.amqp_port = amqp_port
        self.http_port = http_port
        self._connection = http.client.HTTPConnection("127.0.0.1", http_port, ANSWER_SECONDS)
        self.node: str = self.ask("GET", "overview").body["node"]

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        user: str | None = "guest:guest",
        headers: dict[str, str] | None = None,
    ) -> Answer:
        """One request. path: below /api, or whole if it begins with a slash."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        if user is not None:
            sent["Authorization"] = "Basic " + base64.b64encode(user.encode()).decode()
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        whole = path if path.startswith("/") else f"/api/{path}"
        try:
            return self._exchanged(method, whole, data, sent)
        except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError):
            # A server may close a connection that was idle, and after some errors.
            self._connection.close()
            return self._exchanged(method, whole, data, sent)

    def _exchanged(
        self, method: str, path: str, data: bytes | None, headers: dict[str, str]
    ) -> Answer:
        self._connection.request(method, path, data, headers)
        response = self._connection.getresponse()
        raw = response.read()
        chosen = {name: value for name in CHOSEN_HEADERS if (value := response.getheader(name))}
        return Answer(response.status, chosen, _parsed(raw))

    def wait_until(self, condition: Any, what: str) -> None:
        """Wait for a condition; an error says what it was if it does not come."""
        deadline = time.monotonic() + SETTLE_SECONDS
        while not condition():
            if time.monotonic() > deadline:
                raise AssertionError(f"waited {SETTLE_SECONDS} s until {what}; it did not happen")
            time.sleep(0.05)

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()


def _parsed(raw: bytes) -> Any:
    if not raw:
        return None
    try:
        return json.loads(raw)
    except ValueError:
        return raw.decode("utf-8", "replace")
