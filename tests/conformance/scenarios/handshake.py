"""Logging in, tuning and opening a connection."""

import struct

from tests.conformance.methods import encode_method
from tests.conformance.scenario import scenario
from tests.conformance.wire import (
    CLIENT_CAPABILITIES,
    FRAME_OVERHEAD,
    METHOD_FRAME,
    SocketClosed,
    amqplain_response,
    encode_frame,
    plain_response,
)

NO_CAPABILITIES = {}


def answer_to_login(ctx, **login):
    """What follows a connection.start-ok, up to the closed socket if there is an error."""
    client = ctx.raw_socket()
    client.start()
    return answer_or_closing(client, client.log_in, **login)


def answer_to_tuning(ctx, **tuning):
    """What follows a connection.tune-ok and a connection.open."""
    client = ctx.raw_socket()
    client.start()
    client.log_in()
    client.tune(**tuning)
    return answer_or_closing(client, client.call, 0, "connection.open", virtual_host="/")


def answer_to_open(ctx, virtual_host):
    """What follows a connection.open after a good login."""
    client = ctx.raw_socket()
    client.start()
    client.log_in()
    client.tune()
    client.send(0, "connection.open", virtual_host=virtual_host)
    return client.read_until_closed()


def answer_or_closing(client, call, *arguments, **keywords):
    try:
        answer = call(*arguments, **keywords)
    except SocketClosed:
        return "socket closed"
    if answer["method"] == "connection.close":
        client.send(0, "connection.close-ok")
        return [answer, *client.read_until_closed()]
    return answer


@scenario
def wrong_password_with_failure_capability(ctx):
    """authentication_failure_close: the refusal is a connection.close with 403."""
    return answer_to_login(ctx, response=plain_response("guest", "wrong"))


@scenario
def wrong_password_without_failure_capability(ctx):
    """A client without the capability only sees its socket closed."""
    return answer_to_login(
        ctx, response=plain_response("guest", "wrong"), capabilities=NO_CAPABILITIES
    )


@scenario
def empty_password(ctx):
    """An empty password is refused."""
    return answer_to_login(ctx, response=plain_response("guest", ""))


@scenario
def unknown_mechanism(ctx):
    """A mechanism that was not offered."""
    return answer_to_login(ctx, mechanism="SCRAM-SHA-256")


@scenario
def plain_response_with_authorisation_identity(ctx):
    """PLAIN may carry an authorisation identity before the user."""
    return answer_to_login(ctx, response=b"someone\0guest\0guest")


@scenario
def amqplain_login(ctx):
    """AMQPLAIN with LOGIN and PASSWORD is accepted."""
    return answer_to_login(
        ctx, mechanism="AMQPLAIN", response=amqplain_response(ctx.target.user, ctx.target.password)
    )


@scenario
def amqplain_without_password(ctx):
    """An AMQPLAIN response without PASSWORD."""
    return answer_to_login(ctx, mechanism="AMQPLAIN", response=b"\x05LOGINS\x00\x00\x00\x05guest")


@scenario
def locale_is_not_checked(ctx):
    """A locale that was not offered is let through."""
    return answer_to_login(ctx, locale="xx_XX")


@scenario
def tune_with_everything_lower(ctx):
    """Lower values than offered are taken."""
    return answer_to_tuning(ctx, channel_max=10, frame_max=4096, heartbeat=0)


@scenario
def tune_with_higher_channel_max(ctx):
    """A channel_max above the offer closes the connection."""
    return answer_to_tuning(ctx, channel_max=65535)


@scenario
def tune_with_higher_frame_max(ctx):
    """A frame_max above the offer closes the connection."""
    return answer_to_tuning(ctx, frame_max=131073)


@scenario
def tune_with_unlimited_frame_max(ctx):
    """frame_max 0 means no limit, and is more than was offered."""
    return answer_to_tuning(ctx, frame_max=0)


@scenario
def tune_with_higher_heartbeat(ctx):
    """A heartbeat above the offer is fine."""
    return answer_to_tuning(ctx, heartbeat=600)


@scenario
def open_before_tune_ok(ctx):
    """connection.open while connection.tune-ok is due."""
    client = ctx.raw_socket()
    client.start()
    client.log_in()
    client.send(0, "connection.open", virtual_host="/")
    return client.read_until_closed()


@scenario
def channel_open_before_connection_open(ctx):
    """channel.open while connection.open is due."""
    client = ctx.raw_socket()
    client.start()
    client.log_in()
    client.tune()
    client.send(1, "channel.open")
    return client.read_until_closed()


@scenario
def start_ok_on_an_open_connection(ctx):
    """A second connection.start-ok once the connection is open."""
    client = ctx.wire()
    client.send(
        0,
        "connection.start-ok",
        mechanism="PLAIN",
        response=plain_response("guest", "guest"),
        locale="en_US",
    )
    return client.read_until_closed()


@scenario
def open_empty_vhost_name(ctx):
    """The empty string is not an alias of the default virtual host."""
    return answer_to_open(ctx, "")


@scenario
def open_vhost_without_permission(ctx):
    """A user without permissions in the virtual host is refused at connection.open."""
    vhost, user = ctx.vhost(), ctx.user()
    client = ctx.raw_socket()
    client.start()
    client.log_in(response=plain_response(user, user))
    client.tune()
    client.send(0, "connection.open", virtual_host=vhost)
    return client.read_until_closed()


@scenario
def client_closes_connection(ctx):
    """The broker answers connection.close with close-ok and leaves the socket to the client."""
    client = ctx.wire()
    client.send(0, "connection.close", reply_code=200, reply_text="bye")
    return client.read_until_quiet(1)


@scenario
def frames_after_connection_close_are_ignored(ctx):
    """What follows connection.close in the same write gets no answer."""
    client = ctx.wire()
    client.send_bytes(
        b"".join(
            encode_frame(METHOD_FRAME, channel, encode_method(name, {}))
            for channel, name in ((0, "connection.close"), (1, "basic.qos"))
        )
    )
    return client.read_until_quiet(1)


@scenario
def close_crosses_close(ctx):
    """A connection.close sent in answer to the broker's is answered with close-ok."""
    client = ctx.wire()
    client.send(0, "connection.open", virtual_host="/")
    closed = client.read_event()
    client.send(0, "connection.close", reply_code=200)
    return [closed, *client.read_until_quiet(1)]


@scenario
def update_secret(ctx):
    """connection.update-secret with a backend that has no secrets to update."""
    client = ctx.wire()
    client.send(0, "connection.update-secret", new_secret="guest", reason="a test")
    return client.read_until_quiet(1)


@scenario
def heartbeat_zero_keeps_the_broker_silent(ctx):
    """With heartbeat 0 an idle connection stays silent and open."""
    client = ctx.wire(heartbeat=0)
    return [*client.read_until_quiet(3), client.call(1, "basic.qos")]


@scenario
def missed_heartbeats_close_the_socket(ctx):
    """A client that sends nothing is dropped without a connection.close."""
    client = ctx.wire(heartbeat=1)
    return client.read_until_closed()


@scenario
def more_channels_than_channel_max(ctx):
    """Opening one channel too many closes the connection."""
    client = ctx.raw_socket()
    client.open_connection(channel_max=2)
    opened = [client.call(number, "channel.open") for number in (1, 2)]
    client.send(3, "channel.open")
    return opened + client.read_until_closed()


@scenario
def channel_number_above_channel_max(ctx):
    """channel_max limits how many channels are open, not how they are numbered."""
    client = ctx.raw_socket()
    client.open_connection(channel_max=2)
    return client.call(9, "channel.open")


@scenario
def long_client_properties_are_accepted(ctx):
    """A start-ok close to the frame limit that holds before tuning."""
    client = ctx.raw_socket()
    client.start()
    return client.call(
        0,
        "connection.start-ok",
        mechanism="PLAIN",
        locale="en_US",
        response=plain_response(ctx.target.user, ctx.target.password),
        client_properties={
            "capabilities": ("F", CLIENT_CAPABILITIES),
            "information": ("S", "x" * 3500),
        },
    )


@scenario
def frame_above_limit_before_tuning(ctx):
    """Before tuning, a frame's payload may not be above 4096 octets."""
    client = ctx.raw_socket()
    client.start()
    payload = struct.pack(">HH", 10, 11) + b"\0" * (4097 + FRAME_OVERHEAD)
    client.send_frame(METHOD_FRAME, 0, payload)
    return client.read_until_closed()
