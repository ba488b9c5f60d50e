"""Acting in the dead-letter workbench: moving and deleting messages of a queue.

Only the chosen messages are taken out of the queue, those of one read at a time. A message is
published first and then settled, so that a failure leaves it in its queue. Retrying, which
determines where to publish, is in retrying.py.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from leveret.broker.amqp.content_header import ContentHeader
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault
from leveret.broker.queues.classic.inspection import Inspection
from leveret.broker.runtime.names import QUEUE, resource
from leveret.broker.sessions.direct import DirectConnection
from leveret.mgmt.api.call import Call
from leveret.mgmt.api.directly import acting
from leveret.mgmt.api.errors import bad_request
from leveret.mgmt.api.routes import Answerer, route
from leveret.mgmt.api.selection import Selection, header_of, inspected, read_next, readable
from leveret.storage.messages.message import Entry

Publish = Callable[[DirectConnection, Entry], Awaitable[str | None]] | None
"""Publishes a chosen message; returns the reason of a failure, or None."""
NOT_ROUTED = "the message is unroutable: no queue would receive it"
NOTED = ("all", "ids", "header", "body", "routing_key", "to", "targets", "destination")
"""The audit log's record of a request."""
ACTIONS = {"Retrying": "messages.retry", "Moving": "messages.move", "Deleting": "messages.delete"}
"""The names of the acts in the audit log."""
NOTED_MAX = 500
NOTED_CHARACTERS_MAX = 500


class Act:
    """The act on chosen messages: `publish` publishes one; None deletes them."""

    def __init__(
        self, call: Call, vhost: str, inspection: Inspection, body: dict[str, Any]
    ) -> None:
        """Raises 400 if the body chooses no messages."""
        self._call = call
        self._vhost = vhost
        self._selection = Selection(inspection, body)
        self._inspection = inspection
        self._ready_count = inspection.queue.figures.counts().ready
        self._publish: Publish = None
        self.failed: list[dict[str, Any]] = []
        self.done = 0

    async def run(self, publish: Publish) -> dict[str, Any]:
        """Act. Raises 400 for an expression that takes too long to match."""
        self._publish = publish
        with acting(self._call, self._vhost) as connection:
            if self._selection.takes_all:
                await self._handle_all(connection)
            else:
                for one in self._selection.ids:
                    with readable():
                        found = await self._inspection.find(one)
                    if found is None or not await self._handle(connection, [found]):
                        reason = "the message is no longer in the queue"
                        self.failed.append({"id": one, "reason": reason})
                    await self._call.node.give_way()
        return {"done": self.done, "failed": self.failed}

    async def _handle_all(self, connection: DirectConnection) -> None:
        """Act on all matching messages, up to their number at the start: some may be requeued."""
        cursor = self._inspection.cursor()
        left = self._ready_count
        try:
            while left > 0 and (entries := (await read_next(cursor))[:left]):
                left -= len(entries)
                chosen = []
                for entry in entries:
                    if self._selection.filter.takes(entry):
                        chosen.append(entry)
                    await self._call.node.give_way()
                await self._handle(connection, chosen)
        finally:
            cursor.close()

    async def _handle(self, connection: DirectConnection, found: list[Entry]) -> int:
        """Act on those of the messages that are ready; return their number."""
        entries = self._inspection.take(found)
        tags = connection.deliver(self._inspection.queue, entries)
        try:
            for tag, entry in zip(tags, entries, strict=True):
                reason = await self._fault_of(connection, entry)
                if reason is None:
                    connection.ack(tag)
                    self.done += 1
                else:
                    self.failed.append({"id": self._inspection.name_of(entry), "reason": reason})
                await self._call.node.give_way()
        finally:
            self._inspection.put_back(connection.withdraw(tags))
        return len(entries)

    async def _fault_of(self, connection: DirectConnection, entry: Entry) -> str | None:
        """Publish a message if requested; return the reason of a failure, or None."""
        if self._publish is None:
            return None
        try:
            return await self._publish(connection, entry)
        except (ChannelFault, ConnectionFault) as fault:
            return fault.reply_text


async def prepare(call: Call) -> tuple[str, Inspection, dict[str, Any]]:
    """The results of `inspected` and of the request's `body`. Raises their errors."""
    vhost, inspection = await inspected(call)
    return vhost, inspection, await call.body()


async def note(call: Call, doing: str, vhost: str, queue: str, body: dict[str, Any]) -> None:
    """Write the audit line before the act: an act that cannot be logged is not done."""
    detail = {key: _noted(body[key]) for key in NOTED if key in body}
    if len(body.get("ids") or ()) > NOTED_MAX:
        detail["ids_count"] = len(body["ids"])
    if isinstance(body.get("edit"), dict):
        detail["edited"] = sorted(set(body["edit"]) & {"payload", "properties"})
    what = resource(QUEUE, queue, vhost)
    text = f"{doing} messages of {what}"
    await call.note(ACTIONS[doing], QUEUE, queue, text, vhost, detail)


def _noted(value: Any) -> Any:
    """The part of a value that the audit log keeps."""
    if isinstance(value, dict):
        return {key: _noted(value[key]) for key in ("exchange", "routing_key") if key in value}
    if isinstance(value, list):
        return [str(one)[:NOTED_CHARACTERS_MAX] for one in value[:NOTED_MAX]]
    return value[:NOTED_CHARACTERS_MAX] if isinstance(value, str) else bool(value)


def without_cc(header: ContentHeader) -> ContentHeader:
    """The header without CC, whose routing keys the publisher of the message chose."""
    if "CC" not in header.headers:
        return header
    headers = {name: field for name, field in header.headers.items() if name != "CC"}
    return header.replace(headers=headers)


@route("POST", "/queues/{vhost}/{queue}/messages/move", answered_by=Answerer.HOME_OF_QUEUE)
async def move(call: Call) -> Any:
    """Move messages to another queue, without their CC header, which would name more queues."""
    vhost, inspection, body = await prepare(call)
    queue = inspection.queue.name
    destination = body.get("destination")
    if not isinstance(destination, str) or not call.facade.has_queue(vhost, destination):
        raise bad_request(f"destination must be a queue in vhost '{vhost}'")
    if destination == queue:
        raise bad_request("destination must be another queue")
    act = Act(call, vhost, inspection, body)
    await note(call, "Moving", vhost, queue, body)

    async def publish(connection: DirectConnection, entry: Entry) -> str | None:
        header = without_cc(header_of(entry))
        routed = await connection.publish("", destination, header, entry.message.body)
        return None if routed else NOT_ROUTED

    return await act.run(publish)


@route("POST", "/queues/{vhost}/{queue}/messages/delete", answered_by=Answerer.HOME_OF_QUEUE)
async def delete(call: Call) -> Any:
    """Delete messages permanently."""
    vhost, inspection, body = await prepare(call)
    queue = inspection.queue.name
    act = Act(call, vhost, inspection, body)
    await note(call, "Deleting", vhost, queue, body)
    return await act.run(None)
