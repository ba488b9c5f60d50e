"""The frames of basic.get-ok and basic.return, as pamqp reads them."""

import pytest
from pamqp import body, commands, frame, header

from leveret.broker.amqp.content import COPIED_BYTES_MAX, encode_address
from leveret.broker.amqp.content_runs import content_run, get_ok, returned

FRAME_BYTES_MAX = 4096
PROPERTIES = b"\x10\x00\x02"


def frames(method, *bodies, frame_bytes_max=FRAME_BYTES_MAX):
    """Return the frames on channel 7, each read by pamqp, and how many pieces they were in."""
    pieces = content_run(7, method, [(PROPERTIES, one) for one in bodies], frame_bytes_max)
    data, found = b"".join(pieces), []
    while data:
        size, channel, read = frame.unmarshal(data)
        assert channel == 7
        found.append(read)
        data = data[size:]
    return found, len(pieces)


def test_the_answer_to_a_get():
    (method, head, content), _ = frames(get_ok(2**40, True, encode_address("e", "k"), 9), b"body")
    assert isinstance(method, commands.Basic.GetOk)
    assert (method.delivery_tag, method.redelivered, method.message_count) == (2**40, True, 9)
    assert (method.exchange, method.routing_key) == ("e", "k")
    assert isinstance(head, header.ContentHeader)
    assert (head.body_size, head.properties.delivery_mode) == (4, 2)
    assert content.value == b"body"


def test_returned_messages_are_one_piece():
    found, pieces = frames(returned(312, "NO_ROUTE", encode_address("e", "k")), b"a", b"", b"c")
    methods = [one for one in found if isinstance(one, commands.Basic.Return)]
    assert [(one.reply_code, one.reply_text) for one in methods] == [(312, "NO_ROUTE")] * 3
    assert [(one.exchange, one.routing_key) for one in methods] == [("e", "k")] * 3
    assert [one.value for one in found if isinstance(one, body.ContentBody)] == [b"a", b"c"]
    assert pieces == 1


@pytest.mark.parametrize("frame_bytes_max", [FRAME_BYTES_MAX, 0])
def test_a_body_that_is_not_copied_is_between_the_others(frame_bytes_max):
    large = b"x" * (COPIED_BYTES_MAX + 1)
    method = returned(312, "NO_ROUTE", encode_address("", "k"))
    found, pieces = frames(method, b"a", large, b"c", frame_bytes_max=frame_bytes_max)
    parts = [one.value for one in found if isinstance(one, body.ContentBody)]
    assert b"".join(parts) == b"a" + large + b"c"
    assert pieces > 3
