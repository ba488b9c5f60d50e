"""The families of the process, its runtime and the scrapes, as a parser reads them."""

import os
import time

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as parse_open
from prometheus_client.parser import text_string_to_metric_families as parse_text

from leveret.mgmt.metrics.runtime import runtime_registry
from leveret.mgmt.metrics.telemetry import Telemetry
from leveret.mgmt.metrics.text import OPEN_METRICS, TEXT, Exposition

KINDS = {
    "process_start_time_seconds": "gauge",
    "process_cpu_seconds": "counter",
    "process_resident_memory_bytes": "gauge",
    "process_open_fds": "gauge",
    "process_max_fds": "gauge",
    "python_gc_collections": "counter",
    "erlang_vm_allocators": "gauge",
    "telemetry_scrape_duration_seconds": "summary",
    "telemetry_scrape_size_bytes": "summary",
    "telemetry_scrape_encoded_size_bytes": "summary",
}


def page_of(telemetry, form=TEXT):
    """Return the families of a page that has no others, by name."""
    page = Exposition("x_", runtime_registry(telemetry)).render(form).decode()
    parse = parse_open if form.is_open else parse_text
    return {family.name: family for family in parse(page)}


@pytest.mark.parametrize("form", [TEXT, OPEN_METRICS])
def test_the_families_have_the_names_and_types_of_prometheus(form):
    families = page_of(Telemetry(), form)
    assert {name: families[name].type for name in KINDS} == KINDS
    assert "python_info" in families


def test_the_process_is_this_one():
    families = page_of(Telemetry())
    (started,) = families["process_start_time_seconds"].samples
    (files,) = families["process_open_fds"].samples
    assert 0 < started.value <= time.time()
    assert files.value >= 3
    (version,) = families["python_info"].samples
    assert version.labels["implementation"] == "CPython"


@pytest.mark.parametrize("form", [TEXT, OPEN_METRICS])
def test_scrapes_are_counted_by_registry_format_and_encoding(form):
    telemetry = Telemetry()
    telemetry.note("default", TEXT, 0.5, 1000, 100, "gzip")
    telemetry.note("default", TEXT, 0.25, 2000, 2000, "identity")
    families = page_of(telemetry, form)
    labels = {"registry": "default", "content_type": TEXT.content_type}
    seconds = families["telemetry_scrape_duration_seconds"].samples
    assert [(one.name[-6:], one.labels, one.value) for one in seconds] == [
        ("_count", labels, 2), ("ds_sum", labels, 0.75),
    ]  # fmt: skip
    encoded = families["telemetry_scrape_encoded_size_bytes"].samples
    sums = {one.labels["encoding"]: one.value for one in encoded if one.name.endswith("_sum")}
    assert sums == {"gzip": 100, "identity": 2000}


def test_two_nodes_in_one_process_have_registries_of_their_own():
    first, second = Telemetry(), Telemetry()
    first.note("default", TEXT, 0.5, 1000, 100, "gzip")
    assert page_of(first)["telemetry_scrape_size_bytes"].samples
    assert not page_of(second)["telemetry_scrape_size_bytes"].samples


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="the system has no /proc")
def test_an_opened_file_counts(tmp_path):
    before = page_of(Telemetry())["process_open_fds"].samples[0].value
    with (tmp_path / "one").open("w"):
        assert page_of(Telemetry())["process_open_fds"].samples[0].value == before + 1
