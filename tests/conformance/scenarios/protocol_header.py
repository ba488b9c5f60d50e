"""The first bytes of a connection and the broker's connection.start."""

from tests.conformance.scenario import scenario
from tests.conformance.wire import SocketClosed


def answer_to_header(ctx, header):
    client = ctx.raw_socket()
    client.send_bytes(header)
    answer = b""
    try:
        while len(answer) < 64:
            answer += client.read_bytes(1)
    except SocketClosed:
        return {"answer": "hex:" + answer.hex(), "then": "socket closed"}
    return {"answer": "a frame" if answer[:1] == b"\x01" else answer}


@scenario
def header_of_amqp_1_0(ctx):
    """Without the AMQP 1.0 plugin, its header is answered with the 0-9-1 header."""
    return answer_to_header(ctx, b"AMQP\x00\x01\x00\x00")


@scenario
def header_of_amqp_1_0_with_sasl(ctx):
    """The AMQP 1.0 SASL header is answered with the 0-9-1 header."""
    return answer_to_header(ctx, b"AMQP\x03\x01\x00\x00")


@scenario
def header_of_amqp_0_9(ctx):
    """The AMQP 0-9 header: the broker still starts talking."""
    return answer_to_header(ctx, b"AMQP\x01\x01\x00\x09")


@scenario
def header_that_is_not_amqp(ctx):
    """An HTTP request is answered with the 0-9-1 header and a closed socket."""
    return answer_to_header(ctx, b"GET / HTTP/1.1\r\n\r\n")


@scenario
def start_announces_version_mechanisms_and_locales(ctx):
    """connection.start: version 0.9, both mechanisms, one locale."""
    start = ctx.raw_socket().start()
    start["mechanisms"] = sorted(start["mechanisms"].split())
    del start["server_properties"]
    return start


@scenario
def server_properties_have_these_keys_and_types(ctx):
    """The server-properties clients look at, with their field types."""
    properties = ctx.raw_socket().start()["server_properties"]
    return {key: letter for key, (letter, _) in properties.items()}


@scenario
def server_product_is_named(ctx):
    """Some clients branch on the product's name."""
    return ctx.raw_socket().start()["server_properties"]["product"]
