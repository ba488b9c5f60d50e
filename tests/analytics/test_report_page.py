"""The report's HTML page: complete, bounded, and safe from malicious names."""

import base64
import hashlib
import re
from html.parser import HTMLParser

import pytest

from leveret.analytics.report.aggregates import Aggregates, Edge
from leveret.analytics.report.charts import short_number, ticks, time_ticks
from leveret.analytics.report.report_page import carried, page
from leveret.analytics.report.topology_chart import EDGES_MAX, topology_chart
from tests.analytics.story import ORDERS, afternoon, consumer, empty, minute, told

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
    elements = Elements(page(afternoon(), told()))
    assert (elements.open, elements.wrong) == ([], [])
    assert not {"img", "iframe", "object"} & set(elements.names)
    assert elements.names.count("script") == 1
    addresses = [value for name, value in elements.attributes if name in {"href", "src"}]
    assert all(value.startswith(("#", "data:,")) for value in addresses)
    assert not [name for name, _ in elements.attributes if name.startswith("on")]


def test_only_the_script_of_the_page_may_run():
    text = page(afternoon(), told())
    [script] = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    allowed = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{allowed}';" in text


def test_tables_are_sorted_by_what_matters():
    """The deepest queue, the longest wait and the consumer that holds most come first."""
    text = page(afternoon(), [])
    for caption, column in (("Queue depth", 1), ("Consumers", 5)):
        found = column_of(text, caption, column)
        assert found == sorted(found, reverse=True)


def column_of(text, caption, column):
    """The numbers in a column of a table."""
    [body] = re.findall(f"<caption>{caption}</caption>.*?<tbody>(.*?)</tbody>", text)
    rows = [re.findall(r"<td[^>]*>(.*?)</td>", row) for row in body.split("</tr>")[:-1]]
    return [int(row[column].replace(",", "")) for row in rows]


def test_a_finding_names_the_victims_the_remedy_and_the_figures():
    text = page(afternoon(), told())
    assert "queue &lt;b&gt;orders&lt;/b&gt;: more came than left" in text
    for name, words in (
        ("hurts", "12 messages waited."), ("advice", "Add consumers."),
        ("evidence", "table queue_activity"),
    ):  # fmt: skip
        assert f'<p class="{name}">{words}</p>' in text
    assert text.index("orders&lt;/b&gt;: more") < text.index("queue audit: a few")


def test_an_empty_analysis_is_a_page_too():
    for data in (Aggregates(), empty()):
        elements = Elements(page(data, []))
        assert (elements.open, elements.wrong) == ([], [])
    assert "The trace shows no problem." in page(empty(), [])


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
    data.came = {0: 900}
    text = page(data, [])
    assert "2026-03-01 12:00:00 to 2026-03-01 12:00:20 UTC" in text
    assert re.search(r'<path class="line s1" d="M84 [\d.]+H888">', text)


@pytest.mark.parametrize(
    ("seconds", "labels"),
    [
        (20, ["12:00:00", "12:00:05", "12:00:10", "12:00:15"]),
        (180, ["12:00:00", "12:00:30", "12:01:00", "12:01:30", "12:02:00", "12:02:30"]),
        (4 * 3600, ["12:00", "12:30", "13:00", "13:30", "14:00", "14:30", "15:00", "15:30"]),
        (86_400, ["12:00", "15:00", "18:00", "21:00", "03-02 00:00", "03:00", "06:00", "09:00"]),
        (5 * 86_400, ["2026-03-02", "2026-03-03", "2026-03-04", "2026-03-05", "2026-03-06"]),
    ],
)
def test_the_marks_of_the_time_axis_fit_the_length_of_the_trace(seconds, labels):
    begins_us = minute(0)
    ticks_of_time = time_ticks(begins_us, begins_us + seconds * 1_000_000)
    assert [label for _, label in ticks_of_time] == labels


def test_names_are_whole_and_the_default_exchange_has_a_name():
    name = "a.queue.with.a.name.that.is.longer.than.a.box.is.wide"
    chart = topology_chart([Edge("/", "exchange", "", "queue", name, None, 7)])
    assert "default exchange" in chart
    drawn = re.findall(r'<text class="name"[^>]*>([^<]*)</text>', chart)
    assert name in "".join(drawn)
    data = afternoon()
    data.topology = [Edge("/", "user", "shop", "exchange", "", None, 9)]
    assert "<td>the default exchange</td>" in page(data, [])


def test_outcomes_tell_reasons_and_what_needs_no_acknowledgement():
    data = empty()
    data.outcomes = {
        (ORDERS, "acknowledged", None): 100, (ORDERS, "dropped", "maxlen"): 7,
        (ORDERS, "expired", None): 5,
    }  # fmt: skip
    data.no_ack = {ORDERS: 100}
    data.consumers = [
        consumer("careless", last_ack=None, median_us=None)._replace(
            delivered=100, no_ack=100, acknowledged=0
        )
    ]
    text = page(data, [])
    assert (
        "100 delivered without acknowledgement, 7 dropped (the queue was full) and 5 expired"
    ) in text
    assert "<td>none needed</td>" in text
    assert "100 deliveries needed no acknowledgement" in text


def test_heat_maps_have_a_scale():
    assert re.search(
        r"messages in a cell: .*</svg>1</span>.*</svg>10</span>", page(afternoon(), [])
    )
