"""Message properties and header field types, there and back again."""

from tests.conformance.field_table import encode_table
from tests.conformance.methods import encode_content_header
from tests.conformance.scenario import scenario
from tests.conformance.wire import HEADER_FRAME, METHOD_FRAME


def round_trip(ctx, properties):
    """The content header a message comes back with, and whether it is the same to the octet."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, "body", properties)
    sent = encode_content_header(4, properties)
    client.send(1, "basic.get", queue=queue, no_ack=True)
    frames = [client.read_frame() for _ in range(2)]
    if frames[0].kind != METHOD_FRAME or frames[1].kind != HEADER_FRAME:
        return "no message came back"
    received = frames[1].payload
    return {"unchanged": received == sent, "received": "hex:" + received.hex()}


def headers_round_trip(ctx, **headers):
    return round_trip(ctx, {"headers": headers})


@scenario
def every_property(ctx):
    """All fourteen properties at once."""
    return round_trip(
        ctx,
        {
            "content_type": "text/plain",
            "content_encoding": "gzip",
            "headers": {"k": ("S", "v")},
            "delivery_mode": 2,
            "priority": 9,
            "correlation_id": "correlation",
            "reply_to": "reply",
            "expiration": "60000",
            "message_id": "message",
            "timestamp": 1_600_000_000,
            "type": "kind",
            "user_id": ctx.target.user,
            "app_id": "application",
            "cluster_id": "cluster",
        },
    )


@scenario
def empty_and_zero_properties(ctx):
    """Properties that are present but empty stay present."""
    return round_trip(
        ctx,
        {
            "content_type": "",
            "headers": {},
            "priority": 0,
            "correlation_id": "",
            "timestamp": 0,
            "type": "",
        },
    )


@scenario
def largest_timestamp(ctx):
    """A timestamp that uses all 64 bits."""
    return round_trip(ctx, {"timestamp": 2**64 - 1})


@scenario
def boolean_headers(ctx):
    """Type t."""
    return headers_round_trip(ctx, yes=("t", True), no=("t", False))


@scenario
def large_integer_headers(ctx):
    """Types I, i and l at their limits."""
    return headers_round_trip(
        ctx,
        I_low=("I", -(2**31)),
        I_high=("I", 2**31 - 1),
        i=("i", 2**32 - 1),
        l_low=("l", -(2**63)),
        l_high=("l", 2**63 - 1),
    )


@scenario
def floating_point_headers(ctx):
    """Types f and d."""
    return headers_round_trip(
        ctx, f=("f", 0.5), d=("d", 3.141592653589793), negative_zero=("d", -0.0)
    )


@scenario
def string_headers(ctx):
    """Type S: empty, beyond ASCII, with NUL and not UTF-8."""
    return headers_round_trip(
        ctx, empty=("S", ""), snow=("S", "雪☃"), nul=("S", "a\0b"), binary=("S", b"\xff\xfe")
    )


@scenario
def byte_array_headers(ctx):
    """Type x."""
    return headers_round_trip(ctx, x=("x", b"\x00\x01\xff"), empty=("x", b""))


@scenario
def array_headers(ctx):
    """Type A: empty, mixed and nested."""
    return headers_round_trip(
        ctx,
        empty=("A", []),
        mixed=("A", [("S", "x"), ("I", 1), ("V", None), ("A", [("t", True), ("A", [])])]),
    )


@scenario
def table_headers(ctx):
    """Type F: empty and nested."""
    return headers_round_trip(
        ctx,
        empty=("F", {}),
        nested=("F", {"inner": ("F", {"deep": ("A", [("F", {"deeper": ("l", 1)})])})}),
    )


@scenario
def header_type_the_broker_does_not_know(ctx):
    """Type L, which some clients use for 64-bit integers."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    client.publish(1, "", queue, "body", {"headers": {"L": ("L", 1)}})
    client.send(1, "basic.qos")
    return [
        event if isinstance(event, str) else [event["method"], event.get("reply_code")]
        for event in client.read_until_quiet(1)
    ]


@scenario
def headers_survive_a_rewrite(ctx):
    """Every type comes through where the broker rewrites headers, as it does to strip BCC."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    headers = {
        "t": ("t", True),
        "b": ("b", -5),
        "s": ("s", -300),
        "I": ("I", -70000),
        "l": ("l", 2**40),
        "B": ("B", 200),
        "u": ("u", 60000),
        "i": ("i", 2**32 - 1),
        "f": ("f", 0.5),
        "d": ("d", 2.5),
        "D": ("D", (2, 314)),
        "S": ("S", "text"),
        "x": ("x", b"\x01\x02"),
        "T": ("T", 1_600_000_000),
        "V": ("V", None),
        "A": ("A", [("I", 1), ("S", "two")]),
        "F": ("F", {"k": ("t", False)}),
    }
    client.publish(
        1, "", queue, "body", {"headers": {**headers, "BCC": ("A", [("S", ctx.name("other"))])}}
    )
    return client.call(1, "basic.get", queue=queue, no_ack=True)["properties"]["headers"]


@scenario
def duplicate_header_keys(ctx):
    """The same key twice in a header table."""
    client, queue = ctx.wire(), ctx.name("queue")
    client.call(1, "queue.declare", queue=queue)
    entry = encode_table({"same": ("I", 1)})[4:]
    table = (2 * len(entry)).to_bytes(4, "big") + entry + entry
    client.send(1, "basic.publish", routing_key=queue)
    header = encode_content_header(0, {"headers": {}})
    client.send_frame(HEADER_FRAME, 1, header[:-4] + table)
    client.send(1, "basic.get", queue=queue, no_ack=True)
    frames = [client.read_frame() for _ in range(2)]
    return "hex:" + frames[1].payload.hex()
