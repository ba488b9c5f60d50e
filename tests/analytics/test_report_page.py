"""The report's HTML page: complete, bounded, and safe from malicious names."""

import re
from html.parser import HTMLParser

from leveret.analytics.report.aggregates import Aggregates, Deaths, Edge
from leveret.analytics.report.charts import short_number, ticks
from leveret.analytics.report.report_page import carried, page
from leveret.analytics.report.topology_chart import EDGES_MAX, topology_chart
from tests.analytics.story import ORDERS, afternoon, empty, minute

VOID = {"meta", "link", "br"}


class Elements(HTMLParser):
    """Collects all elements, and reports unclosed or doubly closed ones."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes, self.open, self.wrong = [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.names.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_the_page_is_well_formed_and_asks_for_nothing():
    elements = Elements(page(afternoon()))
    assert (elements.open, elements.wrong) == ([], [])
    assert not {"script", "img", "iframe", "object"} & set(elements.names)
    addresses = [value for name, value in elements.attributes if name in {"href", "src"}]
    assert all(value.startswith(("#", "data:,")) for value in addresses)
    assert not [name for name, _ in elements.attributes if name.startswith("on")]


def test_an_empty_analysis_is_a_page_too():
    for data in (Aggregates(), empty()):
        elements = Elements(page(data))
        assert (elements.open, elements.wrong) == ([], [])
    assert "The trace shows no problem." in page(empty())


def test_the_topology_is_bounded():
    edges = [
        Edge("/", "exchange", f"e{n}", "queue", f"q{n}", None, n + 1) for n in range(5 * EDGES_MAX)
    ]
    assert topology_chart(edges).count('class="way"') == EDGES_MAX


def test_scales():
    assert ticks(0) == [0, 1]
    assert ticks(100) == [0, 25, 50, 75, 100]
    assert ticks(7) == [0, 2, 4, 6, 8]
    assert [short_number(value) for value in (0, 12, 1_500, 2e6)] == ["0", "12", "1.5 k", "2 M"]


def test_depth_stays_where_nothing_happens():
    data = empty()
    data.ends_us = data.time_of(5)
    assert carried(data, {1: 7, 3: 2}) == {0: 0, 1: 7, 2: 7, 3: 2, 4: 2}


def test_a_trace_of_a_few_seconds_has_lines_that_are_seen_and_times_that_differ():
    data = empty()
    data.ends_us = data.begins_us + 20_000_000
    data.published = {0: 900}
    data.deaths = [Deaths(ORDERS, "rejected", "dlx", 4, 0, minute(0), minute(0) + 5_000_000)]
    text = page(data)
    assert "2026-03-01 12:00:00 to 2026-03-01 12:00:20 UTC" in text
    assert "because consumers rejected them, at 12:00" in text
    assert re.search(r'<path class="line s1" d="M70 [\d.]+H888">', text)
