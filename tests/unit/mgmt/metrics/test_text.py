"""Metrics can be parsed, whatever names they contain."""

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from leveret.mgmt.metrics.families import COUNTER, GAUGE, HISTOGRAM, UNTYPED, Family
from leveret.mgmt.metrics.text import LINES_MAX, OPEN_METRICS, TEXT, Exposition, render_labels

DEPTH = Family("queue_messages", GAUGE, "Messages")
SENT = Family("sent_total", COUNTER, "Sent, with a \\ and a\nline feed")
INFO = Family("build_info", UNTYPED, "Versions")
WAITED = Family("waited_seconds", HISTOGRAM, "How long")
WILD_NAMES = [
    "plain", 'quo"te', "back\\slash", "line\nfeed", "\\n", 'a="b",c', "{}", "käse-☃-🐇", " ",
    "tab\there", "carriage\rreturn", "", "trailing\\", "#", "\x01\x7f", "a" * 255,
]  # fmt: skip


def samples(page, form=TEXT):
    parse = parse_open if form.is_open else parse_text
    return [sample for family in parse(page.render(form).decode()) for sample in family.samples]


@pytest.mark.parametrize("form", [TEXT, OPEN_METRICS])
@pytest.mark.parametrize("name", WILD_NAMES)
def test_any_name_comes_back_as_it_was(name, form):
    page = Exposition("x_")
    page.add(DEPTH, 3, render_labels((("vhost", "/"), ("queue", name))))
    (sample,) = samples(page, form)
    assert sample.labels == {"vhost": "/", "queue": name}
    assert sample.value == 3


def test_bytes_that_are_no_text_are_spelled_out_and_stay_apart():
    page = Exposition("x_")
    names = [b"\xff".decode("utf-8", "surrogateescape"), b"\xfe".decode("utf-8", "surrogateescape")]
    for name in (*names, "nul\0", "\\xff"):
        page.add(DEPTH, 1, render_labels((("queue", name),)))
    found = [sample.labels["queue"] for sample in samples(page)]
    assert found == ["\\xff", "\\xfe", "nul\\x00", "\\xff"]


def test_samples_of_a_family_stand_together_below_its_type_and_help():
    page = Exposition("x_")
    page.add(DEPTH, 1, '{queue="a"}')
    page.add(SENT, 5)
    page.add(DEPTH, 2, '{queue="b"}')
    assert page.render().decode().splitlines() == [
        "# TYPE x_queue_messages gauge",
        "# HELP x_queue_messages Messages",
        'x_queue_messages{queue="a"} 1',
        'x_queue_messages{queue="b"} 2',
        "# TYPE x_sent_total counter",
        "# HELP x_sent_total Sent, with a \\\\ and a\\nline feed",
        "x_sent_total 5",
    ]


def test_open_metrics_names_counters_without_their_ending_and_has_an_end():
    page = Exposition("x_")
    page.add(SENT, 5)
    page.add(INFO, 1, '{version="1"}')
    lines = page.render(OPEN_METRICS).decode().splitlines()
    assert lines[0] == "# TYPE x_sent counter"
    assert "x_sent_total 5" in lines
    assert "# TYPE x_build_info unknown" in lines
    assert lines[-1] == "# EOF"


def test_what_has_no_value_has_no_sample():
    page = Exposition("x_")
    page.add(DEPTH, None)
    page.add_table((SENT,), (0,), ["", '{queue="b"}'], [(None,), (1,)])
    assert [sample.labels for sample in samples(page)] == [{"queue": "b"}]


def test_a_table_has_families_in_its_columns():
    page = Exposition("x_")
    page.add_table((DEPTH, SENT), (1, 0), ['{queue="a"}', '{queue="b"}'], [(1, 2), (3, 4)])
    found = {(sample.name, sample.labels["queue"]): sample.value for sample in samples(page)}
    assert found == {
        ("x_queue_messages", "a"): 2, ("x_queue_messages", "b"): 4,
        ("x_sent_total", "a"): 1, ("x_sent_total", "b"): 3,
    }  # fmt: skip


@pytest.mark.parametrize("form", [TEXT, OPEN_METRICS])
def test_a_histogram_is_cumulative_and_its_last_bucket_is_its_count(form):
    page = Exposition("x_")
    page.add_histogram(WAITED, (0.001, 1.0), (2, 3, 1), 7.5, (("queue", "a"),))
    found = {(s.name, s.labels.get("le")): s.value for s in samples(page, form)}
    assert found == {
        ("x_waited_seconds_bucket", "0.001"): 2,
        ("x_waited_seconds_bucket", "1.0"): 5,
        ("x_waited_seconds_bucket", "+Inf"): 6,
        ("x_waited_seconds_count", None): 6,
        ("x_waited_seconds_sum", None): 7.5,
    }


def test_a_long_page_comes_in_chunks():
    page = Exposition("x_")
    count = 10 * LINES_MAX
    page.add_table(
        (DEPTH,), (0,), [f'{{queue="{number}"}}' for number in range(count)],
        [(number,) for number in range(count)],
    )  # fmt: skip
    chunks = list(page.chunks(TEXT))
    assert len(chunks) == 10
    assert all(chunk.count(b"\n") <= LINES_MAX + 2 for chunk in chunks)
    assert all(chunk.endswith(b"\n") for chunk in chunks)
    assert len(samples(page)) == count
