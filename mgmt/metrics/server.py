"""The HTTP server of the metrics, on a port of its own and without a login, as in RabbitMQ."""

import logging
import ssl

from aiohttp import web

from broker.config import Listener
from mgmt.metrics.collector import FAMILIES, Collector
from mgmt.metrics.text import CONTENT_TYPE
from mgmt.node import Node, NodeError

logger = logging.getLogger("leveret.metrics")


class MetricsServer:
    """Serves `/metrics`, `/metrics/per-object` and `/metrics/detailed`."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._collector = Collector(node)
        self._runners: list[web.AppRunner] = []

    async def listen(self, listener: Listener, context: ssl.SSLContext | None = None) -> Listener:
        """Serve; where, with the port that the system chose."""
        application = web.Application()
        path = self._node.config.prometheus_path.rstrip("/")
        application.router.add_get(path, self._totals)
        application.router.add_get(f"{path}/per-object", self._per_object)
        application.router.add_get(f"{path}/detailed", self._detailed)
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

    def _require_broker(self) -> None:
        try:
            _ = self._node.sampler
        except NodeError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None

    async def _totals(self, _request: web.Request) -> web.Response:
        self._require_broker()
        if self._node.config.prometheus_per_object:
            return _page(await self._collector.per_object())
        return _page(await self._collector.totals())

    async def _per_object(self, _request: web.Request) -> web.Response:
        self._require_broker()
        return _page(await self._collector.per_object())

    async def _detailed(self, request: web.Request) -> web.Response:
        self._require_broker()
        wanted = set(request.query.getall("family", []))
        unknown = wanted - FAMILIES
        if unknown:
            logger.debug("asked for families that are not known: %s", ", ".join(sorted(unknown)))
        vhosts = set(request.query.getall("vhost", [])) or None
        return _page(await self._collector.detailed(wanted, vhosts))


def _page(body: bytes) -> web.Response:
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE})
