"""Frequent frames without objects: they mean what performatives.py says."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leveret.broker.protocols.amqp10.performatives import (
    FRAME_HEADER_BYTES,
    RECEIVER,
    Accepted,
    Detach,
    Disposition,
    Flow,
    Modified,
    Released,
    Transfer,
    encode_performative,
    frame_of,
    read_performative,
)
from leveret.broker.protocols.amqp10.session_frames import (
    ABSENT,
    ACCEPTED,
    DISPOSITION,
    FLOW,
    RELEASED,
    TRANSFER,
    SessionFrame,
    disposition_frame,
    flow_frame,
)

UINTS = st.integers(0, 2**32 - 1)
OPTIONAL_UINTS = st.none() | UINTS
OPTIONAL_BOOLEANS = st.none() | st.booleans()
TRANSFERS = st.builds(
    Transfer, UINTS, OPTIONAL_UINTS, st.none() | st.binary(max_size=300), OPTIONAL_UINTS,
    OPTIONAL_BOOLEANS, OPTIONAL_BOOLEANS, st.none() | st.integers(0, 1), st.none(),
    OPTIONAL_BOOLEANS, OPTIONAL_BOOLEANS, OPTIONAL_BOOLEANS,
)  # fmt: skip
OUTCOMES = st.none() | st.just(Accepted())
DISPOSITIONS = st.builds(
    Disposition, st.booleans(), UINTS, OPTIONAL_UINTS, OPTIONAL_BOOLEANS, OUTCOMES,
    OPTIONAL_BOOLEANS,
)  # fmt: skip
FLOWS = st.builds(
    Flow, OPTIONAL_UINTS, UINTS, UINTS, UINTS, UINTS, OPTIONAL_UINTS, UINTS, OPTIONAL_UINTS,
    st.sampled_from([None, False]), st.sampled_from([None, False]), st.none(),
)  # fmt: skip


def number(field):
    return ABSENT if field is None else field


def read(performative, payload=b"payload"):
    """The performative as it is read from the middle of a read."""
    data = encode_performative(performative)
    frame = SessionFrame()
    end = 5 + len(data)
    assert frame.read(b"12345" + data + payload + b"next", 5, end + len(payload))
    assert frame.end == end
    return frame


@given(TRANSFERS)
def test_transfers(transfer):
    frame = read(transfer)
    assert (frame.code, frame.handle) == (TRANSFER, transfer.handle)
    assert frame.delivery_id == number(transfer.delivery_id)
    assert (frame.is_settled, frame.has_more) == (bool(transfer.settled), bool(transfer.more))
    assert frame.is_aborted == bool(transfer.aborted)
    assert frame.is_second == (transfer.rcv_settle_mode == 1)
    again = SessionFrame()
    again.take_transfer(transfer)
    assert (again.handle, again.delivery_id, again.is_second) == (
        frame.handle, frame.delivery_id, frame.is_second,
    )  # fmt: skip


@given(DISPOSITIONS)
def test_dispositions(disposition):
    frame = read(disposition, b"")
    assert (frame.code, frame.is_receiver) == (DISPOSITION, disposition.role is RECEIVER)
    last = disposition.first if disposition.last is None else disposition.last
    assert (frame.first, frame.last) == (disposition.first, last)
    assert frame.is_settled == bool(disposition.settled)
    assert frame.outcome == (ABSENT if disposition.state is None else ACCEPTED)


@given(FLOWS)
def test_flows(flow):
    frame = read(flow, b"")
    assert frame.code == FLOW
    assert (frame.next_incoming_id, frame.incoming_window, frame.handle) == (
        number(flow.next_incoming_id), flow.incoming_window, flow.handle,
    )  # fmt: skip
    assert (frame.delivery_count, frame.link_credit) == (
        number(flow.delivery_count), flow.link_credit,
    )  # fmt: skip


@pytest.mark.parametrize(
    "performative",
    [
        Disposition(RECEIVER, 1, 2, True, Released()),
        Disposition(RECEIVER, 1, 2, True, Modified(True)),
        Flow(1, 2, 3, 4),
        Flow(1, 2, 3, 4, 0, 0, 10, drain=True),
        Flow(1, 2, 3, 4, 0, 0, 10, echo=True),
        Transfer(0, 1, b"t", 0, state=Accepted()),
        Detach(0, True),
    ],
)
def test_other_forms_are_left_to_the_other_reader(performative):
    data = encode_performative(performative)
    frame = SessionFrame()
    assert not frame.read(data, 0, len(data))
    assert frame.code == 0


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\0\x53", b"\0\x53\x14", b"\0\x53\x14\xc0", b"\0\x53\x14\xc0\xff\x01\x43",
        b"\0\x53\x14\xc0\x02\x02\x43", b"\0\x53\x14\xd0\0\0\0\x05\xff\xff\xff\xff\x43",
        b"\0\x53\x14\xc0\x03\x02\x43\xa0", b"\0\x53\x15\xc0\x05\x05\x41\x43\x43\x41\0",
        b"\0\x53\x14\x45", b"\0\xa3\x14amqp:transfer:list\xc0\x02\x01\x43",
    ],
)  # fmt: skip
def test_bytes_that_are_none(data):
    assert not SessionFrame().read(data, 0, len(data))


@given(st.binary(max_size=40), st.sampled_from([b"\x13", b"\x14", b"\x15"]))
def test_nothing_is_understood_that_is_not_valid(content, code):
    data = b"\0\x53" + code + b"\xc0" + bytes((len(content),)) + content
    frame = SessionFrame()
    if frame.read(data, 0, len(data)):
        performative, end = read_performative(data)
        assert (frame.code, frame.end) == (code[0], end)
        assert type(performative) in (Flow, Transfer, Disposition)


@given(UINTS, UINTS, st.integers(0, 65535))
def test_dispositions_of_the_broker(first, last, channel):
    made = Disposition(RECEIVER, first, None if first == last else last, True, Released())
    assert disposition_frame(channel, first, last, RELEASED) == frame_of(channel, made)
    data = disposition_frame(channel, first, last, ACCEPTED)
    frame = SessionFrame()
    assert frame.read(data, FRAME_HEADER_BYTES, len(data))
    assert (frame.first, frame.last, frame.outcome) == (first, last, ACCEPTED)


@given(UINTS, UINTS, UINTS, UINTS, UINTS, UINTS, UINTS)
def test_flows_of_the_broker(incoming, window, outgoing, outgoing_window, handle, count, credit):
    session = (incoming, window, outgoing, outgoing_window)
    assert flow_frame(3, *session, handle, count, credit) == frame_of(
        3, Flow(*session, handle, count, credit)
    )
    assert flow_frame(3, *session, ABSENT, 0, 0) == frame_of(3, Flow(*session))
