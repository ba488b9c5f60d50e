"""The HTTP server of the metrics, on a port of its own.

As in RabbitMQ nobody has to log in, unless `prometheus.authentication.enabled` says so; then it
takes a monitor. A page is gathered and written in slices, so that the broker goes on meanwhile,
and is compressed on the way if the scraper takes that.
"""

import logging
import ssl
import zlib
from collections.abc import Awaitable, Callable
from time import perf_counter

from aiohttp import web

from broker.config import Listener
from mgmt.api.errors import ApiError
from mgmt.api.login import NOBODY, credentials_of, log_in
from mgmt.metrics.collector import FAMILIES, Collector
from mgmt.metrics.negotiation import choose_format, takes_gzip
from mgmt.metrics.telemetry import Telemetry
from mgmt.metrics.text import Exposition, Format
from mgmt.node import Node, NodeError
from mgmt.slices import Slices

REALM = 'Basic realm="RabbitMQ Prometheus"'
GZIP_LEVEL = 1
"""Pages repeat themselves: at level 1 they are a fifteenth already."""
GZIP_WINDOW = zlib.MAX_WBITS | 16
"""With gzip's header."""

logger = logging.getLogger("leveret.metrics")

Gather = Callable[[Collector, web.Request], Awaitable[Exposition]]


class MetricsServer:
    """Serves `/metrics`, `/metrics/per-object` and `/metrics/detailed`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._collector: Collector | None = None
        self._telemetry = Telemetry()
        self._runners: list[web.AppRunner] = []

    async def listen(self, listener: Listener, context: ssl.SSLContext | None = None) -> Listener:
        """Serve; where, with the port that the system chose."""
        application = web.Application()
        path = "/" + self._node.config.prometheus_path.strip("/")
        for suffix, registry, gather in (
            ("", "default", self._totals),
            ("/per-object", "per-object", self._per_object),
            ("/detailed", "detailed", self._detailed),
        ):
            handler = self._handler(registry, gather)
            application.router.add_get((path + suffix).replace("//", "/"), handler)
            application.router.add_get((path + suffix).rstrip("/") + "/", handler)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        self._runners.append(runner)
        site = web.TCPSite(
            runner, listener.host, listener.port, ssl_context=context, reuse_address=True
        )
        await site.start()
        address = runner.addresses[0]
        return Listener(address[0], address[1])

    async def close(self) -> None:
        """Serve no more."""
        for runner in self._runners:
            await runner.cleanup()

    # The pages

    async def _totals(self, collector: Collector, request: web.Request) -> Exposition:
        if self._node.config.prometheus_per_object:
            return await self._per_object(collector, request)
        page = await collector.totals()
        self._telemetry.add_to(page)
        return page

    async def _per_object(self, collector: Collector, _request: web.Request) -> Exposition:
        return await collector.per_object()

    async def _detailed(self, collector: Collector, request: web.Request) -> Exposition:
        wanted = set(request.query.getall("family", []))
        unknown = wanted - FAMILIES
        if unknown:
            logger.debug("asked for families that are not known: %s", ", ".join(sorted(unknown)))
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
        """That of the broker, which may have been stopped and started again."""
        try:
            sampler = self._node.sampler
        except NodeError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None
        if self._collector is None or self._collector.sampler is not sampler:
            self._collector = Collector(self._node)
        return self._collector

    async def _require_login(self, request: web.Request) -> None:
        """Raise 401 unless a monitor asks, if anybody has to be one."""
        if not self._node.config.prometheus_authentication:
            return
        try:
            name, password = credentials_of(request, from_query=False)
            identity = await log_in(self._node, request, name, password)
        except ApiError as error:
            if error.status == 503:
                raise web.HTTPServiceUnavailable(text=error.reason) from None
            identity = NOBODY
        if not identity.is_monitor:
            raise web.HTTPUnauthorized(headers={"WWW-Authenticate": REALM})


def _response(request: web.Request, form: Format) -> web.StreamResponse:
    headers = {"Content-Type": form.content_type, "Vary": "Accept, Accept-Encoding"}
    if takes_gzip(request.headers.get("Accept-Encoding", "")):
        headers["Content-Encoding"] = "gzip"
    return web.StreamResponse(headers=headers)


async def _send(
    request: web.Request, response: web.StreamResponse, page: Exposition, form: Format
) -> tuple[int, int, str]:
    """Write a page; its bytes, how many of them went out, and how they were encoded."""
    encoding = response.headers.get("Content-Encoding", "identity")
    gzip = zlib.compressobj(GZIP_LEVEL, wbits=GZIP_WINDOW) if encoding == "gzip" else None
    size = sent = 0
    try:
        await response.prepare(request)
        slices = Slices()
        for chunk in page.chunks(form):
            size += len(chunk)
            data = chunk if gzip is None else gzip.compress(chunk)
            if data:
                sent += len(data)
                await response.write(data)
            await slices.give_way()
        if gzip is not None:
            data = gzip.flush()
            sent += len(data)
            await response.write(data)
        await response.write_eof()
    except ConnectionError as error:
        logger.debug("a scraper has gone: %s", error)
    return size, sent, encoding
