"""A small HTTP server that records what it is asked, and answers what the test says."""

import asyncio
import contextlib
import json
from dataclasses import dataclass, field

from aiohttp import web

from tests.feature.served import serving


@dataclass
class Asked:
    """A request. body: decoded JSON, or None."""

    method: str
    path: str
    query: dict
    headers: dict
    body: object

    @property
    def line(self):
        return f"{self.method} {self.path}"


@dataclass
class Answer:
    """What a server answers: JSON, or bytes as they are. delay: an event to wait for."""

    content: object = b""
    status: int = 200
    headers: dict = field(default_factory=dict)
    delay: asyncio.Event | None = None


class JsonServer:
    """Answers by `answers`, from "METHOD /path" to an Answer; otherwise by `answer_to`."""

    def __init__(self):
        self.asked, self.answers = [], {}
        self.url = ""

    @property
    def host_and_port(self):
        host, _, port = self.url.rpartition("://")[2].rpartition(":")
        return {"host": host, "port": int(port)}

    @property
    def lines(self):
        return [asked.line for asked in self.asked]

    async def answer_to(self, asked):
        return Answer({"message": "not found"}, 404)

    async def handle(self, request):
        content = await request.read()
        asked = Asked(
            request.method,
            request.path,
            dict(request.query),
            dict(request.headers),
            json.loads(content) if content else None,
        )
        self.asked.append(asked)
        answer = self.answers.get(asked.line) or await self.answer_to(asked)
        if answer.delay is not None:
            await answer.delay.wait()
        content, headers = answer.content, answer.headers
        if not isinstance(content, bytes):
            content = json.dumps(content).encode()
            headers = {"Content-Type": "application/json", **headers}
        return web.Response(body=content, status=answer.status, headers=headers)

    @contextlib.asynccontextmanager
    async def running(self, context=None):
        application = web.Application()
        application.router.add_route("*", "/{path:.*}", self.handle)
        async with serving(application, context) as self.url:
            yield self
