"""Negotiation of format and compression with a scraper."""

import pytest

from leveret.mgmt.metrics.negotiation import choose_format, takes_gzip
from leveret.mgmt.metrics.text import OPEN_METRICS, TEXT

PROMETHEUS_2 = (
    "application/openmetrics-text;version=1.0.0,application/openmetrics-text;version=0.0.1;q=0.75,"
    "text/plain;version=0.0.4;q=0.5,*/*;q=0.1"
)
BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


@pytest.mark.parametrize(
    ("accept", "form"),
    [
        ("", TEXT),
        ("*/*", TEXT),
        ("text/plain", TEXT),
        (BROWSER, TEXT),
        (PROMETHEUS_2, OPEN_METRICS),
        ("application/openmetrics-text", OPEN_METRICS),
        ("Application/OpenMetrics-Text; Version=1.0.0", OPEN_METRICS),
        ("application/openmetrics-text;q=0.2, text/plain;q=0.9", TEXT),
        ("application/openmetrics-text;q=0", TEXT),
        ("application/openmetrics-text;q=nonsense", TEXT),
        (";;,=,q", TEXT),
    ],
)
def test_the_format(accept, form):
    assert choose_format(accept) is form


@pytest.mark.parametrize(
    ("header", "taken"),
    [("", False), ("gzip", True), ("deflate, GZIP;q=0.5", True), ("gzip;q=0", False),
     ("identity", False), ("*", False)],
)  # fmt: skip
def test_compression(header, taken):
    assert takes_gzip(header) is taken
