"""Files of data that a node has discarded, as JSON (cluster/partitions/leftovers/)."""

from pathlib import Path
from typing import Any

import msgspec

from leveret.broker.amqp.field_table import decode_table
from leveret.broker.amqp.json_form import table_to_json, text
from leveret.broker.declarations.values import Declaration, PutUser, decode
from leveret.cluster.partitions.leftovers.files import PUBLISHED, DiscardedReader, NotReadable
from leveret.cluster.partitions.leftovers.records import (
    ChangeRecord,
    DeclaredRecord,
    DelayedRecord,
    ExchangeRecord,
    MessageRecord,
    QueueRecord,
)

View = dict[str, Any]


def file_view(path: Path) -> View:
    """A file without its content. Waits for the disk. Raises OSError."""
    view: View = {
        "name": path.name, "bytes": path.stat().st_size, "is_published": path.suffix == PUBLISHED,
    }  # fmt: skip
    try:
        reader = DiscardedReader(path)
    except NotReadable:
        return {**view, "node": "", "at": 0, "takes_from": []}
    reader.close()
    header = reader.header
    return {
        **view, "node": text(header.node), "at": int(header.at_s),
        "takes_from": list(map(text, header.takes_from)),
    }  # fmt: skip


def content_view(path: Path) -> View:
    """A file with all but the messages, which are counted. Reads all of it.

    is_complete: the node has written it to the end. Raises OSError and NotReadable.
    """
    reader = DiscardedReader(path)
    changes: list[View] = []
    declared: list[View] = []
    queues: list[View] = []
    exchanges: list[View] = []
    try:
        while records := reader.read():
            for record in records:
                match record:
                    case ChangeRecord():
                        changes += [declaration_view(decode(one)) for one in record.declarations]
                    case DeclaredRecord():
                        declared.append(declaration_view(decode(record.declaration)))
                    case QueueRecord():
                        queue = declaration_view(decode(record.declaration))
                        queues.append({**queue, "messages": 0, "message_bytes": 0})
                    case MessageRecord():
                        queues[-1]["messages"] += 1
                        queues[-1]["message_bytes"] += len(record.body)
                    case ExchangeRecord():
                        exchange = declaration_view(decode(record.declaration))
                        exchanges.append({**exchange, "messages": 0, "message_bytes": 0})
                    case DelayedRecord():
                        exchanges[-1]["messages"] += 1
                        exchanges[-1]["message_bytes"] += len(record.body)
    finally:
        reader.close()
    return {
        **file_view(path), "is_complete": reader.is_complete, "changes": changes,
        "declared": declared, "queues": queues, "exchanges": exchanges,
    }  # fmt: skip


def declaration_view(it: Declaration) -> View:
    """A declaration with its fields, without secrets. All names are those on disk."""
    if isinstance(it, PutUser):
        return {"declaration": "PutUser", "name": text(it.user.name), "tags": list(it.user.tags)}
    view: View = {"declaration": it.__struct_config__.tag}
    for attribute, name in zip(it.__struct_fields__, it.__struct_encode_fields__, strict=True):
        value = getattr(it, attribute)
        if name == "arguments":
            view[name] = table_to_json(decode_table(value)[0])
        elif name != "acting_user":
            view[name] = text(value) if isinstance(value, str) else msgspec.to_builtins(value)
    return view
