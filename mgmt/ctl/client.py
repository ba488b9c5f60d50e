"""HTTP to a node: over its control socket, or over the network with a user name and a password.

Only the standard library is used here, since a command line tool that starts in a tenth of a second
is used in scripts by the thousand.
"""

import base64
import http.client
import json
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from mgmt.ctl.errors import DATA_ERROR, NO_USER, SOFTWARE, UNAVAILABLE, CtlError

CONTROL_SOCKET = "control.socket"


class _SocketConnection(http.client.HTTPConnection):
    """HTTP over a Unix socket."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket."""
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        self.sock.connect(str(self._path))


class HttpError(CtlError):
    """The node answered with an error."""

    def __init__(self, status: int, reason: str) -> None:
        codes = {400: UNAVAILABLE, 401: NO_USER, 404: UNAVAILABLE, 409: DATA_ERROR}
        super().__init__(f"Error:\n{reason}", codes.get(status, SOFTWARE))
        self.status = status
        self.reason = reason


class Client:
    """Requests to one node. timeout: seconds; None waits for ever."""

    def __init__(
        self, *, data_dir: Path | None, url: str, username: str, password: str,
        timeout: float | None,
    ) -> None:  # fmt: skip
        self._socket_path = None if data_dir is None else data_dir / CONTROL_SOCKET
        self._url = urlsplit(url) if url else None
        self._timeout = timeout
        credentials = base64.b64encode(f"{username}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {credentials}"} if url else {}

    @property
    def is_local(self) -> bool:
        """It goes over the control socket, so the routes about the node are open."""
        return self._url is None

    @property
    def place(self) -> str:
        """Where the node is, for messages."""
        return self._url.geturl() if self._url is not None else str(self._socket_path)

    def _connect(self) -> http.client.HTTPConnection:
        url = self._url
        if url is None:
            assert self._socket_path is not None
            return _SocketConnection(self._socket_path, self._timeout)
        host = url.hostname or "localhost"
        if url.scheme == "https":
            context = ssl.create_default_context()
            return http.client.HTTPSConnection(
                host, url.port or 15671, timeout=self._timeout, context=context
            )
        return http.client.HTTPConnection(host, url.port or 15672, timeout=self._timeout)

    def get(self, *path: str, **query: str) -> Any:
        """What is at a path, whose parts are encoded here."""
        return self.request("GET", path, query=query)

    def put(self, *path: str, body: Any = None) -> Any:
        """Put something there."""
        return self.request("PUT", path, body={} if body is None else body)

    def post(self, *path: str, body: Any = None, **query: str) -> Any:
        """Post something there."""
        return self.request("POST", path, body={} if body is None else body, query=query)

    def delete(self, *path: str, headers: dict[str, str] | None = None, **query: str) -> Any:
        """Delete what is there."""
        return self.request("DELETE", path, query=query, headers=headers)

    def request(
        self, method: str, path: tuple[str, ...], *, body: Any = None,
        query: dict[str, str] | None = None, headers: dict[str, str] | None = None,
    ) -> Any:  # fmt: skip
        """One request. Raises HttpError, or CtlError if the node cannot be reached."""
        connection, response = self._send(method, path, body, query, headers)
        try:
            raw = response.read()
        except TimeoutError:
            raise self._timed_out() from None
        finally:
            connection.close()
        content = json.loads(raw) if raw else None
        if response.status >= 400:
            reason = content.get("reason", raw.decode()) if isinstance(content, dict) else raw
            if response.status == 503 and isinstance(content, dict) and "status" in content:
                return content
            raise HttpError(response.status, reason if isinstance(reason, str) else str(reason))
        return content

    def stream(self, *path: str) -> Iterator[bytes]:
        """The lines of an answer that does not end by itself."""
        connection, response = self._send("GET", path, None, None, None)
        try:
            while line := response.readline():
                yield line
        finally:
            connection.close()

    def _send(
        self, method: str, path: tuple[str, ...], body: Any, query: dict[str, str] | None,
        headers: dict[str, str] | None,
    ) -> tuple[http.client.HTTPConnection, http.client.HTTPResponse]:  # fmt: skip
        prefix = self._url.path.rstrip("/") if self._url is not None else ""
        target = f"{prefix}/api/" + "/".join(quote(part, safe="") for part in path)
        if query:
            target += "?" + urlencode(query)
        sent = {"Content-Type": "application/json", **self._headers, **(headers or {})}
        connection = self._connect()
        try:
            data = None if body is None else json.dumps(body)
            connection.request(method, target, body=data, headers=sent)
            return connection, connection.getresponse()
        except TimeoutError:
            raise self._timed_out() from None
        except (OSError, http.client.HTTPException) as error:
            raise unreachable(self.place, str(error)) from None

    def _timed_out(self) -> CtlError:
        return CtlError(
            f"Error: operation on the node at {self.place} timed out. "
            f"Timeout value used: {int((self._timeout or 0) * 1000)}",
            75,
        )


def unreachable(place: str, reason: str) -> CtlError:
    """No node answers."""
    return CtlError(
        f"Error: unable to perform an operation on the node at {place}: {reason}\n\n"
        "Most common reasons for this are:\n\n"
        " * the node is not running\n"
        " * its data directory is another one: name it with --data-dir or LEVERET_DATA_DIR\n"
        " * this user may not read that directory",
        UNAVAILABLE,
    )
