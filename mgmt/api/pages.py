"""The management pages, and addresses of RabbitMQ's pages, on the same ports as the API.

RabbitMQ has its reference at `/api/index.html` and its tools at `/cli`.
"""

from collections.abc import Awaitable, Callable

from aiohttp import web

from leveret.mgmt.api.page_files import UI_DIRECTORY, VERSION_PATTERN, PageFiles
from leveret.mgmt.api.plugin_pages import file_of_plugin
from leveret.mgmt.api.rabbitmqadmin_file import rabbitmqadmin_file
from leveret.mgmt.api.reference_page import reference_page
from leveret.mgmt.api.routes import ROUTES
from leveret.mgmt.running_node import RunningNode

MOVED = {
    "/api": "/api/index.html", "/api/": "/api/index.html", "/doc/stats.html": "/api/index.html",
    "/cli": "/cli/index.html", "/cli/": "/cli/index.html",
}  # fmt: skip

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_pages(application: web.Application, prefix: str, node: RunningNode) -> None:
    """Add the pages to an application, below a prefix, with those of the plugins of the node."""
    router = application.router
    files = PageFiles()
    router.add_get(f"{prefix}/", files.send_index)
    # Browsers request it at the root, whatever the page says.
    router.add_get("/favicon.ico", _file("mark.svg"))
    if prefix:
        router.add_get(prefix, _redirect(f"{prefix}/", web.HTTPFound))
    for path, target in MOVED.items():
        router.add_get(f"{prefix}{path}", _redirect(f"{prefix}{target}", web.HTTPMovedPermanently))
    router.add_get(f"{prefix}/api/index.html", _reference(prefix))
    router.add_get(f"{prefix}/cli/index.html", _file("cli.html"))
    router.add_get(f"{prefix}/cli/rabbitmqadmin", _send_rabbitmqadmin)
    for place in (f"{prefix}/ui/{{version:{VERSION_PATTERN}}}", f"{prefix}/ui"):
        router.add_get(f"{place}/plugins/{{plugin}}/{{name}}", _file_of_plugins(node))
        router.add_get(f"{place}/{{name:.*}}", files.send_file)


async def _send_rabbitmqadmin(request: web.Request) -> web.StreamResponse:
    headers = {"Content-Disposition": "attachment; filename=rabbitmqadmin"}
    return web.Response(
        body=rabbitmqadmin_file(), content_type="application/octet-stream", headers=headers
    )


def _file(name: str) -> Handler:
    async def send(request: web.Request) -> web.StreamResponse:
        return web.FileResponse(UI_DIRECTORY / name)

    return send


def _file_of_plugins(node: RunningNode) -> Handler:
    async def send(request: web.Request) -> web.StreamResponse:
        path = file_of_plugin(node, request.match_info["plugin"], request.match_info["name"])
        if path is None:
            raise web.HTTPNotFound
        return web.FileResponse(path)

    return send


def _redirect(target: str, status: type[web.HTTPFound] | type[web.HTTPMovedPermanently]) -> Handler:
    async def redirect(request: web.Request) -> web.StreamResponse:
        raise status(target)

    return redirect


def _reference(prefix: str) -> Handler:
    async def send(request: web.Request) -> web.StreamResponse:
        return web.Response(text=reference_page(ROUTES, prefix), content_type="text/html")

    return send
