"""Requests to the HTTP API."""

from __future__ import annotations

import argparse
import base64
import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from .errors import Failure

REDIRECTIONS_MAX = 5
SHOWN_MAX = 100
"""How many characters of an unusable answer are shown."""


class Api:
    """Sends requests."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        credentials = f"{options.username}:{options.password}".encode()
        self._headers = {"Authorization": "Basic " + base64.b64encode(credentials).decode()}

    def request(self, method: str, path: str, body: bytes = b"") -> str:
        """Return the content of an answer. path: below /api. Raises Failure."""
        return self._follow(method, f"{self._options.path_prefix}/api{path}", body)

    def read(self, content: str) -> Any:
        """Return the JSON of an answer. Raises Failure if it has none."""
        try:
            return json.loads(content)
        except (ValueError, RecursionError):
            raise self.no_answer(content) from None

    def objects(self, content: str) -> list[dict[str, Any]]:
        """Return the list of objects in an answer. Raises Failure if it is something else."""
        found = self.read(content)
        if isinstance(found, list) and all(isinstance(one, dict) for one in found):
            return found
        raise self.no_answer(content)

    def object(self, content: str) -> dict[str, Any]:
        """Return the object in an answer. Raises Failure if it is something else."""
        found = self.read(content)
        if isinstance(found, dict):
            return found
        raise self.no_answer(content)

    def no_answer(self, content: str) -> Failure:
        """Return the error for an answer that is not one of a management API."""
        where = f"{self._options.hostname}:{self._options.port}"
        shown = content[:SHOWN_MAX]
        return Failure(f"No management API answers at {where}. It sent: {shown!r}")

    def _follow(self, method: str, path: str, body: bytes, redirections: int = 0) -> str:
        headers = dict(self._headers)
        if body:
            headers["Content-Type"] = "application/json"
        try:
            connection = self._connection()
            connection.request(method, path, body or None, headers)
            response = connection.getresponse()
            content = response.read().decode("utf-8", "replace")
        except TimeoutError:
            seconds = self._options.request_timeout
            raise Failure(f"Timed out: no answer within {seconds} seconds") from None
        except (OSError, http.client.HTTPException) as error:
            raise Failure(f"Could not connect: {error or type(error).__name__}") from None
        if response.status == 301 and redirections < REDIRECTIONS_MAX:
            target = urlsplit(response.getheader("Location", ""))
            self._options.hostname = target.hostname or self._options.hostname
            self._options.port = target.port or self._options.port
            place = f"{target.path}?{target.query}" if target.query else target.path
            return self._follow(method, place, body, redirections + 1)
        if response.status >= 300:
            raise Failure(_reason(response.status, response.reason, path, content))
        return content

    def _connection(self) -> http.client.HTTPConnection:
        options = self._options
        place, seconds = (options.hostname, options.port), options.request_timeout
        if not options.ssl:
            return http.client.HTTPConnection(*place, timeout=seconds)
        context = ssl.create_default_context(cafile=options.ssl_ca_cert_file)
        if options.ssl_insecure or options.ssl_disable_hostname_verification:
            context.check_hostname = False
        if options.ssl_insecure:
            context.verify_mode = ssl.CERT_NONE
        if options.ssl_cert_file:
            context.load_cert_chain(options.ssl_cert_file, options.ssl_key_file)
        return http.client.HTTPSConnection(*place, timeout=seconds, context=context)


def _reason(status: int, word: str, path: str, content: str) -> str:
    if status == 401:
        return f"Access refused: {path}"
    if status == 404:
        return f"Not found: {path}"
    try:
        reason = json.loads(content)["reason"]
    except (ValueError, KeyError, TypeError):
        reason = content
    shown = reason if isinstance(reason, str) else json.dumps(reason)
    return shown if status == 400 else f"{status} {word} for {path}: {shown}"
