"""The HTTP server of the metrics, on a separate port.

As in RabbitMQ, no login is needed unless `prometheus.authentication.enabled` is set; then the user
must be a monitor. A page is computed and written in slices, between which the broker serves
clients, and is compressed if the scraper accepts gzip.
"""

import asyncio
import logging
import ssl
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from time import perf_counter

from aiohttp import web

from leveret.broker.config import Listener
from leveret.mgmt.api.errors import ApiError
from leveret.mgmt.api.login import ANONYMOUS, credentials_of, log_in
from leveret.mgmt.http.listening import listen
from leveret.mgmt.metrics.collector import FAMILIES, Collector
from leveret.mgmt.metrics.negotiation import choose_format, takes_gzip
from leveret.mgmt.metrics.runtime import runtime_registry
from leveret.mgmt.metrics.telemetry import Telemetry
from leveret.mgmt.metrics.text import Exposition, Format
from leveret.mgmt.running_node import NodeError, RunningNode
from leveret.mgmt.slices import Slices

REALM = 'Basic realm="RabbitMQ Prometheus"'
GZIP_LEVEL = 1
"""The fastest one: pages repeat themselves so much that it reduces them to a fifteenth."""
GZIP_WINDOW = zlib.MAX_WBITS | 16
"""With a gzip header."""

logger = logging.getLogger("leveret.metrics")

Gather = Callable[[Collector, web.Request], Awaitable[Exposition]]


class MetricsServer:
    """Serves `/metrics`, `/metrics/per-object` and `/metrics/detailed`."""

    def __init__(self, node: RunningNode) -> None:
        self._node = node
        self._collector: Collector | None = None
        self._telemetry = Telemetry()
        self._runtime = runtime_registry(self._telemetry)
        self._runners: list[web.AppRunner] = []

    async def listen(self, listener: Listener, context: ssl.SSLContext | None = None) -> Listener:
        """Listen; return the address, with the port that the system chose if 0 was given."""
        application = web.Application()
        path = "/" + self._node.config.prometheus.path.strip("/")
        for suffix, registry, gather in (
            ("", "default", self._totals),
            ("/per-object", "per-object", self._per_object),
            ("/detailed", "detailed", self._detailed),
        ):
            handler = self._handler(registry, gather)
            application.router.add_get((path + suffix).replace("//", "/"), handler)
            application.router.add_get((path + suffix).rstrip("/") + "/", handler)
        runner = web.AppRunner(application, access_log=None)
        self._runners.append(runner)
        timeout_s = self._node.config.management.request_timeout_ms / 1000
        return await listen(runner, listener, context, timeout_s)

    async def close(self) -> None:
        """Stop listening."""
        for runner in self._runners:
            await runner.cleanup()

    # The pages

    async def _totals(self, collector: Collector, request: web.Request) -> Exposition:
        if self._node.config.prometheus.per_object:
            return await self._per_object(collector, request)
        return await collector.totals()

    async def _per_object(self, collector: Collector, _request: web.Request) -> Exposition:
        return await collector.per_object()

    async def _detailed(self, collector: Collector, request: web.Request) -> Exposition:
        wanted = set(request.query.getall("family", []))
        unknown = wanted - FAMILIES
        if unknown:
            logger.debug(
                "a scrape asked for unknown families, which are ignored: %s",
                ", ".join(sorted(unknown)),
            )
        vhosts = set(request.query.getall("vhost", [])) or None
        return await collector.detailed(wanted & FAMILIES, vhosts)

    # Answering

    def _handler(
        self, registry: str, gather: Gather
    ) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        async def handle(request: web.Request) -> web.StreamResponse:
            await self._require_login(request)
            form = choose_format(request.headers.get("Accept", ""))
            response = _response(request, form)
            if request.method == "HEAD":
                return response
            began = perf_counter()
            page = await gather(self._current_collector(), request)
            sizes = await _send(request, response, page, form)
            self._telemetry.note(registry, form, perf_counter() - began, *sizes)
            return response

        return handle

    def _current_collector(self) -> Collector:
        """The collector of the running broker. Raises 503 if the broker is stopped."""
        try:
            sampler = self._node.sampler
        except NodeError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None
        if self._collector is None or self._collector.sampler is not sampler:
            self._collector = Collector(self._node, self._runtime)
        return self._collector

    async def _require_login(self, request: web.Request) -> None:
        """Raise 401 unless the user is a monitor, if authentication is enabled."""
        if not self._node.config.prometheus.authentication:
            return
        try:
            name, password = credentials_of(request, from_query=False)
            identity = await log_in(self._node, request, name, password)
        except ApiError as error:
            if error.status == 503:
                raise web.HTTPServiceUnavailable(text=error.reason) from None
            identity = ANONYMOUS
        if not identity.is_monitor:
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": REALM})


def _response(request: web.Request, form: Format) -> web.StreamResponse:
    headers = {"Content-Type": form.content_type, "Vary": "Accept, Accept-Encoding"}
    if takes_gzip(request.headers.get("Accept-Encoding", "")):
        headers["Content-Encoding"] = "gzip"
    return web.StreamResponse(headers=headers)


async def _pieces(page: Exposition, form: Format) -> AsyncIterator[bytes]:
    """A page piece by piece, with the node's other work in between."""
    slices = Slices()
    for chunk in page.chunks(form):
        yield chunk
        await slices.give_way()
    # In a thread: counting 10,000 file descriptors takes 20 ms.
    yield await asyncio.to_thread(page.ending, form)


async def _send(
    request: web.Request, response: web.StreamResponse, page: Exposition, form: Format
) -> tuple[int, int, str]:
    """Write a page. Returns its size, the size after compression, and the encoding."""
    encoding = response.headers.get("Content-Encoding", "identity")
    gzip = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW) if encoding == "gzip" else None
    size = sent = 0
    try:
        await response.prepare(request)
        async for chunk in _pieces(page, form):
            size += len(chunk)
            data = chunk if gzip is None else gzip.compress(chunk)
            if data:
                sent += len(data)
                await response.write(data)
        if gzip is not None:
            data = gzip.flush()
            sent += len(data)
            await response.write(data)
        await response.write_eof()
    except ConnectionError as error:
        logger.debug("a scraper closed its connection before the page was written: %s", error)
    return size, sent, encoding
