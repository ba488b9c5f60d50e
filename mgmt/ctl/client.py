"""An HTTP client for a node: over its control socket, or over TCP with a user name and password.

It uses the standard library only, which keeps the start-up of the command at a tenth of a second:
scripts call it thousands of times. A node that cannot be reached is reported in one line.
"""

import base64
import http.client
import json
import os
import select
import socket
import ssl
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

from leveret.broker.runtime.tls_errors import reason_of
from leveret.mgmt.api_names import CONTROL_SOCKET, LEFT_OUT, LINES, NODE_HEADER
from leveret.mgmt.ctl.errors import (
    DATA_ERROR,
    NO_PERMISSION,
    NO_USER,
    SOFTWARE,
    TIMED_OUT,
    UNAVAILABLE,
    CtlError,
)
from leveret.mgmt.ctl.wording import in_words

DATA_DIR_VARIABLE = "LEVERET_DATA_DIR"
TIMEOUT_SECONDS = 60
READ_BYTES = 64 * 1024
STAY_SECONDS = 20
NEXT_REQUEST = b"GET /api/whoami HTTP/1.1\r\n"
"""The beginning of a request, an octet of which is sent every `STAY_SECONDS`."""
PATH_BYTES_MAX = 107
"""The longest socket path (`unix(7)`); a longer one is reached through its directory."""


def _refuse_foreign(path: Path) -> None:
    """Raise CtlError for another user's socket, whose owner could read passwords sent to it."""
    own_id = os.geteuid()
    owner_id = path.stat().st_uid
    if own_id not in (0, owner_id):
        raise CtlError(
            f"Error: the socket {path} belongs to user id {owner_id}, and this process has user id "
            f"{own_id}: run this command as the node's user",
            NO_PERMISSION,
        )


class _SocketConnection(http.client.HTTPConnection):
    """An HTTP connection over a Unix socket."""

    def __init__(self, path: Path, timeout: float | None) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        """Connect to the socket. Raises OSError and CtlError."""
        _refuse_foreign(self._path)
        self.sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.sock.settimeout(self.timeout)
        if len(os.fsencode(self._path)) <= PATH_BYTES_MAX:
            self.sock.connect(str(self._path))
            return
        directory = os.open(self._path.parent, os.O_PATH)
        try:
            self.sock.connect(f"/proc/self/fd/{directory}/{self._path.name}")
        finally:
            os.close(directory)


class HttpError(CtlError):
    """The node answered with an error. content: its body, if that is an object."""

    def __init__(self, status: int, reason: str, content: Any = None) -> None:
        codes = {400: UNAVAILABLE, 401: NO_USER, 404: UNAVAILABLE, 409: DATA_ERROR}
        super().__init__(f"Error:\n{reason}", codes.get(status, SOFTWARE))
        self.status = status
        self.reason = reason
        self.content: dict[str, Any] = content if isinstance(content, dict) else {}


class NodeClient:
    """Sends requests to one node.

    timeout: seconds for the whole command. operation, node: for error messages. left_out: the nodes
    of the cluster whose part is missing in the answers so far. context: for HTTPS; None for one
    with the system's authorities.
    """

    def __init__(
        self, *, data_dir: Path | None, url: str, username: str, password: str,
        timeout: float, operation: str = "", node: str = "",
        context: ssl.SSLContext | None = None,
    ) -> None:  # fmt: skip
        self._socket_path = None if data_dir is None else data_dir.absolute() / CONTROL_SOCKET
        self._url = urlsplit(url) if url else None
        self.timeout_s = timeout
        self._deadline = time.monotonic() + timeout
        self.left_out: set[str] = set()
        self._operation = operation
        self._node = node
        self._context = context
        credentials = base64.b64encode(f"{username}:{password}".encode()).decode()
        self._headers = {"Authorization": f"Basic {credentials}"} if url else {}

    @property
    def is_local(self) -> bool:
        """It uses the control socket, where routes about the node are available."""
        return self._url is None

    @property
    def place(self) -> str:
        """The address of the node, for messages."""
        return self._url.geturl() if self._url is not None else str(self._socket_path)

    def _connect(self) -> http.client.HTTPConnection:
        url, left_s = self._url, self._deadline - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        if url is None:
            assert self._socket_path is not None
            return _SocketConnection(self._socket_path, left_s)
        host = url.hostname or "localhost"
        if url.scheme == "https":
            context = self._context or ssl.create_default_context()
            return http.client.HTTPSConnection(
                host, url.port or 15671, timeout=left_s, context=context
            )
        return http.client.HTTPConnection(host, url.port or 15672, timeout=left_s)

    def ask_node(self, name: str) -> None:
        """Have another node of the cluster answer from now on; the local one passes requests on."""
        self._headers = {**self._headers, NODE_HEADER: name}

    def wait_longer(self, seconds: float) -> None:
        """Restart the time limit with another timeout."""
        self.timeout_s = seconds
        self._deadline = time.monotonic() + seconds

    def get(self, *path: str, **query: str) -> Any:
        """Get a path; its parts are percent-encoded here."""
        return self.request("GET", path, query=query)

    def put(self, *path: str, body: Any = None) -> Any:
        """Put a body."""
        return self.request("PUT", path, body={} if body is None else body)

    def post(self, *path: str, body: Any = None, **query: str) -> Any:
        """Post a body."""
        return self.request("POST", path, body={} if body is None else body, query=query)

    def delete(
        self, *path: str, headers: dict[str, str] | None = None, body: Any = None, **query: str
    ) -> Any:
        """Delete a resource."""
        return self.request("DELETE", path, query=query, headers=headers, body=body)

    def request(
        self, method: str, path: tuple[str, ...], *, body: Any = None,
        query: dict[str, str] | None = None, headers: dict[str, str] | None = None,
    ) -> Any:  # fmt: skip
        """Send a request. Raises HttpError, or CtlError if the node cannot be reached."""
        connection, response = self._send(method, path, body, query, headers)
        left_out = response.getheader(LEFT_OUT, "")
        self.left_out.update(name for name in left_out.split(", ") if name)
        try:
            raw = response.read()
        except TimeoutError:
            raise self.timed_out() from None
        except (OSError, http.client.HTTPException) as error:
            raise self.unreachable(f"the connection was lost: {error}") from None
        finally:
            connection.close()
        return _content(response.status, raw)

    def rows(self, *path: str, **query: str) -> Iterator[dict[str, Any]]:
        """Return the objects of a list as the node sends them. Raises as `request` does.

        The node that is connected to answers, with what all nodes of the cluster have.
        """
        headers = {"Accept": LINES, NODE_HEADER: ""}
        connection, response = self._send("GET", path, None, query, headers)
        try:
            if response.status >= 400:
                _content(response.status, response.read())
            yield from self._rows(connection, response)
        except TimeoutError:
            raise self.timed_out() from None
        except (OSError, http.client.HTTPException) as error:
            raise self.unreachable(f"the connection was lost: {error}") from None
        finally:
            connection.close()

    def _rows(
        self, connection: http.client.HTTPConnection, response: http.client.HTTPResponse
    ) -> Iterator[dict[str, Any]]:
        """Read lines of JSON up to the last one, which is a list of the nodes that are left out."""
        rest = b""
        while True:
            connection.sock.settimeout(max(0.001, self._deadline - time.monotonic()))
            read = response.read1(READ_BYTES)
            if not read:
                raise self.unreachable("the node ended its answer before the end of the list")
            *lines, rest = (rest + read).split(b"\n")
            for row in json.loads(b"[" + b",".join(lines) + b"]"):
                if isinstance(row, list):
                    self.left_out.update(row)
                    return
                yield row

    def stream(self, *path: str) -> Iterator[bytes]:
        """Return the lines of an unlimited response until the time is over.

        Raises HttpError, and CtlError if the node ends the response.
        """
        connection, response = self._send("GET", path, None, None, None)
        try:
            if response.status >= 400:
                _content(response.status, response.read())
            while (left_s := self._deadline - time.monotonic()) > 0:
                connection.sock.settimeout(left_s)
                line = response.readline()
                if not line:
                    raise self.unreachable("the node ended the stream because it is stopping")
                yield line
        except TimeoutError:
            return
        except (OSError, http.client.HTTPException) as error:
            raise self.unreachable(f"the connection was lost: {error}") from None
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
        data = None if body is None else json.dumps(body)
        try:
            connection = self._connect()
            connection.request(method, target, body=data, headers=sent)
            self._stay_connected(connection)
            return connection, connection.getresponse()
        except TimeoutError:
            raise self.timed_out() from None
        except (OSError, http.client.HTTPException, UnicodeError) as error:
            # A UnicodeError means that the name of the host is not valid.
            raise self.unreachable(_why(error, self.place)) from None

    def _stay_connected(self, connection: http.client.HTTPConnection) -> None:
        """Wait for the answer of another broker.

        RabbitMQ closes a connection on which nothing was sent for a minute, also if it is still
        making the answer: a list of very many queues. So a second request is begun.
        """
        if self._url is None:
            return
        sock = connection.sock
        for number in range(len(NEXT_REQUEST)):
            left_s = max(0.001, self._deadline - time.monotonic())
            sock.settimeout(left_s)
            readable, _, _ = select.select([sock], [], [], min(left_s, STAY_SECONDS))
            if readable or left_s <= STAY_SECONDS:
                return
            sock.sendall(NEXT_REQUEST[number : number + 1])

    def timed_out(self) -> CtlError:
        """Return the error for a timeout."""
        where = f"on node {self._node}" if self._node else f"on the node at {self.place}"
        return CtlError(
            f"Error: operation {self._operation} {where} timed out. "
            f"Timeout value used: {int(self.timeout_s * 1000)}",
            TIMED_OUT,
        )

    def unreachable(self, reason: str) -> CtlError:
        """Return the error for a node that cannot be reached."""
        name = f"node '{self._node}'" if self._node else "the node"
        code = NO_PERMISSION if "may not open" in reason else UNAVAILABLE
        line = " ".join(reason.split())
        return CtlError(f"Error: unable to perform an operation on {name}: {line}", code)


def data_directory(values: Mapping[str, Any]) -> str:
    """The data directory that the options of a command line name."""
    return str(values.get("data_dir") or os.environ.get(DATA_DIR_VARIABLE) or "data")


def client_of(values: Mapping[str, Any]) -> NodeClient:
    """Return the client that the options of a command line ask for."""
    data_dir = data_directory(values)
    timeout = values.get("timeout")
    return NodeClient(
        data_dir=Path(data_dir), url=str(values.get("url") or ""),
        username=str(values.get("username") or "guest"),
        password=str(values.get("password") or "guest"),
        timeout=float(TIMEOUT_SECONDS if timeout is None else timeout),
        operation=str(values.get("operation")), node=str(values.get("node") or ""),
    )  # fmt: skip


def _content(status: int, raw: bytes) -> Any:
    """Decode a response. Raises HttpError, but not for a failed health check."""
    try:
        content = json.loads(raw) if raw else None
    except json.JSONDecodeError:
        raise HttpError(status, f"the node's answer is not JSON: {raw[:100]!r}") from None
    if status < 400 or (status == 503 and isinstance(content, dict) and "status" in content):
        return content
    reason = content.get("reason", "") if isinstance(content, dict) else content
    raise HttpError(status, in_words(reason), content)


def _why(error: Exception, place: str) -> str:
    """Return why the node does not answer, and what to do."""
    if isinstance(error, FileNotFoundError):
        return (
            f"the socket {place} does not exist: the node is not running, or has another data "
            "directory (--data-dir or LEVERET_DATA_DIR)"
        )
    if isinstance(error, PermissionError):
        return f"this user may not open {place}: run the command as the node's user"
    if isinstance(error, ConnectionRefusedError):
        return f"nothing is listening at {place}: the node is not running or is still starting"
    if isinstance(error, ssl.SSLError):
        return f"TLS with {place} fails: {reason_of(error)}"
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, ConnectionError):
        return f"{place} does not speak HTTP, or only HTTPS"
    return f"{place} does not answer: {error or type(error).__name__}"


def wrong_node(place: str, found: str, wanted: str) -> CtlError:
    """Return the error for a node with another name than requested."""
    return CtlError(
        f"Error: unable to perform an operation on node '{wanted}': the node at {place} is "
        f"'{found}'",
        UNAVAILABLE,
    )
