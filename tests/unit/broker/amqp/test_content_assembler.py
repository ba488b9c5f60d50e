"""Assembling a message from its frames."""

import pytest

from leveret.broker.amqp.content import header_frame
from leveret.broker.amqp.content_assembler import Content, ContentAssembler
from leveret.broker.amqp.errors import ConnectionFault
from leveret.broker.amqp.frames import BODY, HEADER, METHOD

ARGUMENTS = b"\0\0\0\1q\0"
PROPERTIES = b"\x08\x00\x05"
GOT_NO_HEADER = (
    "UNEXPECTED_FRAME - expected content header for class 60, got non content header frame instead"
)
GOT_NO_BODY = "UNEXPECTED_FRAME - expected content body, got non content body frame instead"


def header(body_bytes, class_id=60, weight=0):
    """Return the payload of a header frame."""
    start = class_id.to_bytes(2, "big") + weight.to_bytes(2, "big")
    return start + body_bytes.to_bytes(8, "big") + PROPERTIES


def in_the_middle(body_bytes=6):
    """Return an assembler that has received the header."""
    assembler = ContentAssembler(ARGUMENTS)
    assert assembler.add(HEADER, header(body_bytes)) is None
    return assembler


def fault_of(assembler, kind, payload):
    """Return the fault for the frame."""
    with pytest.raises(ConnectionFault) as caught:
        assembler.add(kind, payload)
    return caught.value


def test_a_message_without_a_body_is_whole_with_its_header():
    assert ContentAssembler(ARGUMENTS).add(HEADER, header(0)) == Content(ARGUMENTS, PROPERTIES, b"")


def test_a_message_is_whole_with_its_last_body_frame():
    assembler = in_the_middle(6)
    assert assembler.body_bytes == 6
    assert assembler.add(BODY, b"one") is None
    assert assembler.add(BODY, b"two") == Content(ARGUMENTS, PROPERTIES, b"onetwo")


def test_a_body_in_one_frame():
    assert in_the_middle(3).add(BODY, b"one") == (ARGUMENTS, PROPERTIES, b"one")


def test_a_large_body():
    pieces = [bytes((number % 256,)) * 100_000 for number in range(12)]
    assembler = in_the_middle(1_200_000)
    *rest, last = [assembler.add(BODY, piece) for piece in pieces]
    assert rest == [None] * 11
    assert last.body == b"".join(pieces)
    assert type(last.body) is bytes


def test_empty_body_frames_add_nothing():
    assembler = in_the_middle(1)
    assert assembler.add(BODY, b"") is None
    assert assembler.add(BODY, b"x").body == b"x"


def test_it_reads_the_headers_that_the_broker_writes():
    payload = header_frame(1, PROPERTIES, 0)[7:-1]
    assert ContentAssembler(ARGUMENTS).add(HEADER, payload).properties == PROPERTIES


@pytest.mark.parametrize("kind", [METHOD, BODY])
def test_another_frame_instead_of_the_header(kind):
    fault = fault_of(ContentAssembler(ARGUMENTS), kind, header(0))
    assert fault.reply_text == GOT_NO_HEADER
    assert (fault.class_id, fault.method_id) == (60, 40)


def test_a_weight_is_reserved():
    fault = fault_of(ContentAssembler(ARGUMENTS), HEADER, header(0, weight=1))
    assert fault.reply_text == GOT_NO_HEADER


def test_a_header_of_another_class():
    fault = fault_of(ContentAssembler(ARGUMENTS), HEADER, header(0, class_id=50))
    assert fault.reply_code == 505
    assert fault.explanation == (
        "expected content header for class 60, got one for class 50 instead"
    )


def test_a_header_that_is_too_short():
    fault = fault_of(ContentAssembler(ARGUMENTS), HEADER, header(0)[:13])
    assert fault.reply_code == 501
    assert fault.explanation.endswith(": unknown_frame")


@pytest.mark.parametrize("kind", [METHOD, HEADER])
def test_another_frame_instead_of_a_body(kind):
    fault = fault_of(in_the_middle(), kind, b"onetwo")
    assert fault.reply_text == GOT_NO_BODY
    assert (fault.class_id, fault.method_id) == (60, 40)


def test_more_body_than_was_announced():
    assembler = in_the_middle(4)
    assembler.add(BODY, b"one")
    assert fault_of(assembler, BODY, b"two").reply_text == GOT_NO_BODY
