"""Frames of STOMP in any pieces, with both kinds of line ends, within their limits."""

import pytest

from leveret.broker.protocols.stomp.frames import (
    HEAD_BYTES_MAX,
    HEADERS_MAX,
    FrameScanner,
    MalformedFrame,
    encode_frame,
)

FRAMES = (
    b"\n\r\nSEND\ndestination:/queue/a\n\nbody\0"
    b"\n\nSEND\r\ndestination:/queue/b\r\ncontent-length:3\r\n\r\na\0b\0\n"
    b"BEGIN\ntransaction:t\n\n\0"
    b"SEND\r\nx:1\r\n\r\nan\n\nempty line\0"
)
COMMANDS = ["SEND", "SEND", "BEGIN", "SEND"]
BODIES = [b"body", b"a\0b", b"", b"an\n\nempty line"]


def scan(*reads, limit=10_000):
    scanner = FrameScanner(limit)
    found = []
    for data in reads:
        scanner.add(data)
        while scanner.take():
            found.append((scanner.head, scanner.body))
    return found


def test_frames_of_one_read():
    found = scan(FRAMES)
    assert [head.command for head, _ in found] == COMMANDS
    assert [body for _, body in found] == BODIES
    assert found[1][0].headers == {"destination": "/queue/b", "content-length": "3"}


@pytest.mark.parametrize("size", [1, 2, 3, 5, 7, 11, 40])
def test_frames_in_pieces(size):
    reads = [FRAMES[at : at + size] for at in range(0, len(FRAMES), size)]
    found = scan(*reads)
    assert [head.command for head, _ in found] == COMMANDS
    assert [body for _, body in found] == BODIES


def test_frames_that_are_not_taken_wait():
    scanner = FrameScanner(10_000)
    for at in range(0, len(FRAMES), 10):
        scanner.add(FRAMES[at : at + 10])
    found = []
    while scanner.take():
        found.append(scanner.body)
    assert found == BODIES


def test_a_head_that_comes_again_is_parsed_once():
    first, second, other = scan(
        b"SEND\ndestination:a\n\n1\0SEND\ndestination:a\n\n2\0SEND\ndestination:b\n\n3\0"
    )
    assert first[0] is second[0]
    assert other[0] is not first[0]


def test_heads_that_differ_in_their_receipts_are_parsed_once():
    scanner = FrameScanner(10_000)
    scanner.add(
        b"SEND\ndestination:a\nreceipt:1\n\na\0SEND\nreceipt:2\ndestination:a\n\nb\0"
        b"SEND\ndestination:a\nreceipt:3\n\nc\0SEND\ndestination:a\n\nd\0"
        b"SEND\ndestination:a\nreceipt:\n\ne\0"
    )
    assert scanner.take()
    first = scanner.head
    first.keep_use("use")
    found = []
    while scanner.take():
        found.append((scanner.head.receipt, scanner.head.use, scanner.head.headers))
    headers = {"destination": "a"}
    assert found == [
        ("2", "use", headers), ("3", "use", headers), (None, None, headers), ("", "use", headers),
    ]  # fmt: skip
    assert found[1][2] is first.headers


@pytest.mark.parametrize(
    ("head", "receipt"),
    [
        (b"SEND\ndestination:a\nreceipt:1\nreceipt:2", "1"),
        (b"SEND\ndestination:a\nreceipt:a\\c\\nb", "a:\nb"),
        (b"SEND\r\nreceipt:a\r\ndestination:a\r", "a"),
        (b"SEND\nxreceipt:0\nreceipt:\xff", "\udcff"),
        (b"SEND\nreceipt:a:b", "a:b"),
        (b"SEND\nreceipts:1", None),
        (b"ACK\nid:1\nreceipt:r", "r"),
    ],
)
def test_receipts(head, receipt):
    (first, _), (second, _) = scan(2 * (head + b"\n\n\0"))
    assert [first.receipt, second.receipt] == [receipt, receipt]
    assert "receipt" not in first.headers
    assert second.headers == first.headers


def test_escapes_and_repeated_headers():
    ((head, _),) = scan(b"SEND\na\\cb:1\\n2\\\\3\\r\nx:first\nx:second\nempty:\n\n\0")
    assert head.headers == {"a:b": "1\n2\\3\r", "x": "first", "empty": ""}


def test_a_value_has_colons_and_bytes_that_are_no_text():
    ((head, _),) = scan(b"SEND\na:b:c\nbytes:\xff\n\n\0")
    assert head.headers["a"] == "b:c"
    assert encode_frame("X", {"bytes": head.headers["bytes"]}, end=b"\0") == (
        b"X\nbytes:\xff\n\n\0"
    )


@pytest.mark.parametrize(
    "data",
    [
        b"SEND\nname\n\n\0",
        b"SEND\na:\\x\n\n\0",
        b"SEND\na:\\\n\n\0",
        b"SEND\na:b\rc\n\n\0",
        b"SEND\ncontent-length:-1\n\n\0",
        b"SEND\ncontent-length:1_0\n\n\0",
        b"SEND\ncontent-length:2\n\nabc\0",
        b"SEND\n" + HEADERS_MAX * b"a:b\n" + b"\n\0",
        b"x" * (HEAD_BYTES_MAX + 2),
        b"SEND\na:" + b"x" * HEAD_BYTES_MAX + b"\n\n\0",
        b"SEND\ncontent-length:10000\n\n",
        b"SEND\n\n" + 10_001 * b"x",
    ],
)
def test_malformed_frames(data):
    with pytest.raises(MalformedFrame):
        scan(data)
    with pytest.raises(MalformedFrame):
        scan(*[data[at : at + 1000] for at in range(0, len(data), 1000)])


def test_encoded_frames():
    assert encode_frame("MESSAGE", {"a:b": "c\nd"}, b"body") == (
        b"MESSAGE\na\\cb:c\\nd\ncontent-length:4\n\nbody\0\n"
    )
    assert encode_frame("RECEIPT", {"receipt-id": "1"}) == b"RECEIPT\nreceipt-id:1\n\n\0\n"
