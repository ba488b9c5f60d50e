"""The rows of the benchmark, and what the report says of them."""

import pytest
from pika.spec import BasicProperties

from tests.bench import markdown, properties, scenarios, topologies
from tests.bench.command_line import parse
from tests.bench.loads import Target
from tests.bench.plan import chosen
from tests.bench.samples import LoadSample, Results, SingleSample
from tests.bench.verdicts import limit_verdict, verdict


def sample(rate: float, cpu_us: float, p99_us: float = 100, delivered: float = 1) -> LoadSample:
    """Return a sample of which only some values matter."""
    return LoadSample(
        publish_rate=rate, rate=rate, delivered=delivered, cpu_us=cpu_us, p50_us=1, p95_us=2,
        p99_us=p99_us, p999_us=p99_us, full_p99_us=10 * p99_us, peak_mib=50, paced_rate=5000,
        drained=True, generator_cpu_us=0.1,
    )  # fmt: skip


def test_rows_have_names_of_their_own() -> None:
    """--only chooses rows by name."""
    names = [name for name, _ in scenarios.rows()]
    titles = [load.title for load in scenarios.LOADS]
    assert len(set(names)) == len(names)
    assert len(set(titles)) == len(titles)


def test_rows_use_known_topologies_and_properties() -> None:
    """A misspelt function is found without a broker."""
    for load in scenarios.LOADS:
        assert not load.topology or load.topology in topologies.KINDS
        assert not load.properties or load.properties in properties.KINDS


def test_several_patterns_choose_rows() -> None:
    """A row is chosen by any of the patterns."""
    patterns = parse(["--only", "varied-*", "idle"]).only
    assert chosen("varied-64", patterns)
    assert chosen("idle", patterns)
    assert not chosen("durable", patterns)


@pytest.mark.parametrize("kind", properties.KINDS)
def test_properties_are_encoded_one_after_the_other(kind: str) -> None:
    """Each set follows its length, and has the mark that the generator replaces."""
    rest = properties.encoded(kind, True)
    for number in range(properties.FORMS):
        size = int.from_bytes(rest[:2], "big")
        one, rest = rest[2 : 2 + size], rest[2 + size :]
        decoded = BasicProperties()
        decoded.decode(one)
        assert decoded.delivery_mode == 2
        assert one.count(properties.MARK.encode()) in (1, 3), number
    assert rest == b""


def test_a_target_is_met() -> None:
    """All ratios are within their limits."""
    target = Target(cpu=1 / 8, rate=5, delivered=0.9)
    said = verdict(target, [sample(500_000, 2)], [sample(100_000, 16)])
    assert said.text == "CPU 1/8, rate 5, delivered 90%: met"


def test_what_misses_a_target_is_said() -> None:
    """Only the parts that miss it are named, with the ratios reached."""
    target = Target(cpu=1 / 8, rate=5, p99=1, is_p99_full=True, delivered=0.9)
    ours, theirs = sample(300_000, 2, p99_us=150, delivered=0.5), sample(100_000, 16)
    said = verdict(target, [ours], [theirs])
    assert said.missed == ("rate 3.00", "p99 1.50", "delivered 50%")


def test_a_single_measurement_has_a_limit() -> None:
    """The limit is of the first broker's value."""
    assert limit_verdict(2, SingleSample(1.5, "times")) == "2: met"
    assert limit_verdict(2, SingleSample(2.5, "times")) == "2: missed"
    assert limit_verdict(None, SingleSample(2.5, "times")) == ""


def test_the_table_has_a_line_for_each_broker() -> None:
    """Ratios are in RabbitMQ's line, and how many times the bound's CPU was used."""
    results = Results(["leveret", "rabbitmq"])
    results.loads["auto-ack"] = {
        "leveret": [sample(500_000, 2)],
        "rabbitmq": [sample(100_000, 16)],
        "relay": [sample(900_000, 0.4)],
    }
    results.targets["auto-ack"] = Target(cpu=1 / 8)
    lines = markdown.table(results).splitlines()
    assert lines[2].startswith("| auto-ack | leveret | 500,000 | 500,000 (100%) | 2.00 |")
    assert lines[3].endswith("| 0.12 | 5.00 | 1.00 | 5.0 | CPU 1/8: met |")
    assert lines[4].startswith("|  | relay | 900,000 |")
