"""The arguments of a stream that a client creates."""

import pytest

from leveret.broker.protocols.stream.stream_arguments import ArgumentError, table_of

STREAM = {"x-queue-type": ("S", "stream")}


@pytest.mark.parametrize(
    ("name", "text", "found"),
    [
        ("max-length-bytes", "1000", {"x-max-length-bytes": ("l", 1000)}),
        ("max-length-bytes", "-1", {}),
        ("max-age", "1h", {"x-max-age": ("S", "1h")}),
        ("max-age", "30", {"x-max-age": ("S", "30s")}),
        ("stream-max-segment-size-bytes", "1", {"x-stream-max-segment-size-bytes": ("l", 1)}),
        ("initial-cluster-size", "1", {"x-initial-cluster-size": ("l", 1)}),
        ("stream-filter-size-bytes", "32", {"x-stream-filter-size-bytes": ("l", 32)}),
        ("queue-leader-locator", "random", {"x-queue-leader-locator": ("S", "random")}),
        ("unknown", "x", {}),
    ],
)
def test_texts_become_arguments_of_the_queue(name, text, found):
    assert table_of({name: text}) == STREAM | found


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("max-length-bytes", "many"),
        ("max-length-bytes", str(2**63)),
        ("stream-max-segment-size-bytes", "3000000001"),
        ("stream-max-segment-size-bytes", "-1"),
        ("initial-cluster-size", "0"),
        ("stream-filter-size-bytes", "8"),
        ("queue-leader-locator", "nowhere"),
    ],
)
def test_what_no_stream_can_have_is_refused(name, text):
    with pytest.raises(ArgumentError, match=name):
        table_of({name: text})
