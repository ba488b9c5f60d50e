"""The AMQP 0-9-1 methods: how their arguments are laid out on the wire.

The broker's own codec is not used, so that an error in it cannot hide itself.
"""

import struct

from tests.conformance.field_table import Reader, encode_longstr, encode_shortstr, encode_table

_METHOD_LAYOUTS = """
10 10 connection.start version_major:octet version_minor:octet server_properties:table
    mechanisms:longstr locales:longstr
10 11 connection.start-ok client_properties:table mechanism:shortstr response:longstr
    locale:shortstr
10 20 connection.secure challenge:longstr
10 21 connection.secure-ok response:longstr
10 30 connection.tune channel_max:short frame_max:long heartbeat:short
10 31 connection.tune-ok channel_max:short frame_max:long heartbeat:short
10 40 connection.open virtual_host:shortstr reserved1:shortstr reserved2:bit
10 41 connection.open-ok reserved1:shortstr
10 50 connection.close reply_code:short reply_text:shortstr class_id:short method_id:short
10 51 connection.close-ok
10 60 connection.blocked reason:shortstr
10 61 connection.unblocked
10 70 connection.update-secret new_secret:longstr reason:shortstr
10 71 connection.update-secret-ok
20 10 channel.open reserved1:shortstr
20 11 channel.open-ok reserved1:longstr
20 20 channel.flow active:bit
20 21 channel.flow-ok active:bit
20 40 channel.close reply_code:short reply_text:shortstr class_id:short method_id:short
20 41 channel.close-ok
40 10 exchange.declare reserved1:short exchange:shortstr type:shortstr passive:bit durable:bit
    auto_delete:bit internal:bit nowait:bit arguments:table
40 11 exchange.declare-ok
40 20 exchange.delete reserved1:short exchange:shortstr if_unused:bit nowait:bit
40 21 exchange.delete-ok
40 30 exchange.bind reserved1:short destination:shortstr source:shortstr routing_key:shortstr
    nowait:bit arguments:table
40 31 exchange.bind-ok
40 40 exchange.unbind reserved1:short destination:shortstr source:shortstr routing_key:shortstr
    nowait:bit arguments:table
40 51 exchange.unbind-ok
50 10 queue.declare reserved1:short queue:shortstr passive:bit durable:bit exclusive:bit
    auto_delete:bit nowait:bit arguments:table
50 11 queue.declare-ok queue:shortstr message_count:long consumer_count:long
50 20 queue.bind reserved1:short queue:shortstr exchange:shortstr routing_key:shortstr nowait:bit
    arguments:table
50 21 queue.bind-ok
50 30 queue.purge reserved1:short queue:shortstr nowait:bit
50 31 queue.purge-ok message_count:long
50 40 queue.delete reserved1:short queue:shortstr if_unused:bit if_empty:bit nowait:bit
50 41 queue.delete-ok message_count:long
50 50 queue.unbind reserved1:short queue:shortstr exchange:shortstr routing_key:shortstr
    arguments:table
50 51 queue.unbind-ok
60 10 basic.qos prefetch_size:long prefetch_count:short global:bit
60 11 basic.qos-ok
60 20 basic.consume reserved1:short queue:shortstr consumer_tag:shortstr no_local:bit no_ack:bit
    exclusive:bit nowait:bit arguments:table
60 21 basic.consume-ok consumer_tag:shortstr
60 30 basic.cancel consumer_tag:shortstr nowait:bit
60 31 basic.cancel-ok consumer_tag:shortstr
60 40 basic.publish reserved1:short exchange:shortstr routing_key:shortstr mandatory:bit
    immediate:bit
60 50 basic.return reply_code:short reply_text:shortstr exchange:shortstr routing_key:shortstr
60 60 basic.deliver consumer_tag:shortstr delivery_tag:longlong redelivered:bit exchange:shortstr
    routing_key:shortstr
60 70 basic.get reserved1:short queue:shortstr no_ack:bit
60 71 basic.get-ok delivery_tag:longlong redelivered:bit exchange:shortstr routing_key:shortstr
    message_count:long
60 72 basic.get-empty reserved1:shortstr
60 80 basic.ack delivery_tag:longlong multiple:bit
60 90 basic.reject delivery_tag:longlong requeue:bit
60 100 basic.recover-async requeue:bit
60 110 basic.recover requeue:bit
60 111 basic.recover-ok
60 120 basic.nack delivery_tag:longlong multiple:bit requeue:bit
85 10 confirm.select nowait:bit
85 11 confirm.select-ok
90 10 tx.select
90 11 tx.select-ok
90 20 tx.commit
90 21 tx.commit-ok
90 30 tx.rollback
90 31 tx.rollback-ok
"""
"""One method a line; an indented line continues the one before."""

PROPERTY_KINDS = {
    "content_type": "shortstr",
    "content_encoding": "shortstr",
    "headers": "table",
    "delivery_mode": "octet",
    "priority": "octet",
    "correlation_id": "shortstr",
    "reply_to": "shortstr",
    "expiration": "shortstr",
    "message_id": "shortstr",
    "timestamp": "longlong",
    "type": "shortstr",
    "user_id": "shortstr",
    "app_id": "shortstr",
    "cluster_id": "shortstr",
}

INTEGER_FORMATS = {"octet": ">B", "short": ">H", "long": ">I", "longlong": ">Q"}
ZERO_VALUES = {"shortstr": "", "longstr": b"", "table": {}, "bit": False}


def _parse_layouts():
    layouts, names = {}, {}
    for line in _METHOD_LAYOUTS.replace("\n    ", " ").strip().splitlines():
        class_id, method_id, name, *fields = line.split()
        ids = (int(class_id), int(method_id))
        layouts[name] = (ids, [field.split(":") for field in fields])
        names[ids] = name
    return layouts, names


METHOD_LAYOUTS, METHOD_NAMES = _parse_layouts()


def _encode_value(kind, value):
    if kind in INTEGER_FORMATS:
        return struct.pack(INTEGER_FORMATS[kind], value)
    if kind == "shortstr":
        return encode_shortstr(value)
    if kind == "longstr":
        return encode_longstr(value)
    return encode_table(value)


def _decode_value(kind, reader):
    if kind in INTEGER_FORMATS:
        return reader.unpack(INTEGER_FORMATS[kind])
    return getattr(reader, kind)()


def encode_method(name, arguments):
    ids, fields = METHOD_LAYOUTS[name]
    unknown = set(arguments) - {field for field, _ in fields}
    if unknown:
        raise TypeError(f"{name} has no arguments {sorted(unknown)}")
    payload = struct.pack(">HH", *ids)
    bits = []
    for field, kind in fields:
        value = arguments.get(field, ZERO_VALUES.get(kind, 0))
        if kind == "bit":
            bits.append(value)
            continue
        payload += _pack_bits(bits) + _encode_value(kind, value)
        bits = []
    return payload + _pack_bits(bits)


def _pack_bits(bits):
    if not bits:
        return b""
    return bytes([sum(1 << index for index, bit in enumerate(bits) if bit)])


def decode_method(payload):
    """The method's name and its arguments without the reserved ones."""
    reader = Reader(payload)
    name = METHOD_NAMES[reader.unpack(">H"), reader.unpack(">H")]
    arguments = {}
    octet, bits_read = 0, 0
    for field, kind in METHOD_LAYOUTS[name][1]:
        if kind == "bit":
            if bits_read == 0:
                octet = reader.unpack(">B")
            value = bool(octet >> bits_read & 1)
            bits_read += 1
        else:
            bits_read = 0
            value = _decode_value(kind, reader)
        if not field.startswith("reserved"):
            arguments[field] = value
    return name, arguments


def encode_content_header(body_size, properties, class_id=60, weight=0):
    flags, values = 0, b""
    for index, (name, kind) in enumerate(PROPERTY_KINDS.items()):
        if name in properties:
            flags |= 1 << (15 - index)
            values += _encode_value(kind, properties[name])
    return struct.pack(">HHQH", class_id, weight, body_size, flags) + values


def decode_content_header(payload):
    """The announced body size and the properties that are present."""
    reader = Reader(payload)
    reader.take(4)
    body_size, flags = reader.unpack(">Q"), reader.unpack(">H")
    properties = {
        name: _decode_value(kind, reader)
        for index, (name, kind) in enumerate(PROPERTY_KINDS.items())
        if flags >> (15 - index) & 1
    }
    return body_size, properties
