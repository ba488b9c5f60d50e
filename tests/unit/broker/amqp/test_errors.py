"""Channel and connection errors, and their texts for clients."""

import pytest

from leveret.broker.amqp import errors, reply_codes
from leveret.broker.amqp.errors import ChannelFault, ConnectionFault, format_snippet

MAKERS = {
    errors.access_refused: (ChannelFault, 403, "ACCESS_REFUSED"),
    errors.not_found: (ChannelFault, 404, "NOT_FOUND"),
    errors.resource_locked: (ChannelFault, 405, "RESOURCE_LOCKED"),
    errors.precondition_failed: (ChannelFault, 406, "PRECONDITION_FAILED"),
    errors.content_too_large: (ConnectionFault, 311, "CONTENT_TOO_LARGE"),
    errors.connection_forced: (ConnectionFault, 320, "CONNECTION_FORCED"),
    errors.login_refused: (ConnectionFault, 403, "ACCESS_REFUSED"),
    errors.frame_error: (ConnectionFault, 501, "FRAME_ERROR"),
    errors.command_invalid: (ConnectionFault, 503, "COMMAND_INVALID"),
    errors.channel_error: (ConnectionFault, 504, "CHANNEL_ERROR"),
    errors.unexpected_frame: (ConnectionFault, 505, "UNEXPECTED_FRAME"),
    errors.not_allowed: (ConnectionFault, 530, "NOT_ALLOWED"),
    errors.not_implemented: (ConnectionFault, 540, "NOT_IMPLEMENTED"),
    errors.internal_error: (ConnectionFault, 541, "INTERNAL_ERROR"),
}


@pytest.mark.parametrize("make", MAKERS, ids=lambda make: make.__name__)
def test_each_refusal_has_its_code_and_name(make):
    fault_type, code, name = MAKERS[make]
    fault = make("because")
    assert type(fault) is fault_type
    assert fault.reply_code == code
    assert fault.reply_text == f"{name} - because"


def test_a_refusal_without_words_is_its_name():
    assert errors.not_implemented("").reply_text == "NOT_IMPLEMENTED"


def test_a_refusal_in_a_log_is_in_words():
    assert f"{errors.precondition_failed('no such node')}" == "PRECONDITION_FAILED - no such node"


def test_no_method_is_to_blame_until_one_is_named():
    fault = errors.not_found("no queue 'q' in vhost '/'")
    assert (fault.class_id, fault.method_id) == (0, 0)


def test_every_code_has_a_name():
    assert reply_codes.NAMES[200] == "REPLY_SUCCESS"
    assert reply_codes.NAMES[312] == "NO_ROUTE"
    assert set(reply_codes.NAMES) >= {code for _, code, _ in MAKERS.values()}


def test_a_text_of_255_bytes_is_whole():
    name = "NOT_FOUND - "
    text = errors.not_found("x" * (255 - len(name))).reply_text
    assert text == name + "x" * (255 - len(name))


def test_a_longer_text_is_cut_to_255_bytes():
    text = errors.not_found("x" * 255).reply_text
    assert len(text) == 255
    assert text == ("NOT_FOUND - " + "x" * 255)[:252] + "..."


@pytest.mark.parametrize("padding", range(4))
def test_no_letter_is_cut_in_two(padding):
    text = errors.not_found("x" * padding + "€" * 100).reply_text
    encoded = text.encode()
    assert 255 - 2 <= len(encoded) <= 255
    assert encoded.endswith("€...".encode())


def test_bytes_that_are_not_utf_8_pass():
    text = errors.not_found("no queue '\udcff'").reply_text
    assert text.encode("utf-8", "surrogateescape").endswith(b"'\xff'")
    assert len(errors.not_found("\udcff" * 300).reply_text) <= 255


def test_payloads_are_shown_up_to_16_octets():
    assert format_snippet(b"") == "all octets = <<>>"
    assert format_snippet(b"A" * 16) == f'all octets = <<"{"A" * 16}">>'
    assert format_snippet(b"A" * 17) == f'first 16 octets = <<"{"A" * 16}">>'
    assert format_snippet(b"A" * 16 + b"\0") == f'first 16 octets = <<"{"A" * 16}">>'
