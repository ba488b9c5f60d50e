"""What is found in the traces of the suite of incidents and of independent sets, and what is not.

All incidents are one trace, each of a virtual host of its own. Those that are held out are judged
by their figures only: no one looks at single ones while finders change.
"""

from pathlib import Path

import pytest

from leveret.analytics.findings.collect_evidence import collect_evidence
from leveret.analytics.findings.findings import every_finding
from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.tables import versions
from leveret.analytics.tables.columns import PARTITION
from leveret.analytics.tables.tables import TABLES
from tests.analytics.incidents import simulated_log
from tests.analytics.incidents.independent.form import SCENES
from tests.analytics.incidents.independent.judgement import SETS, Figures, figures_of
from tests.analytics.incidents.independent.judgement import judge as judge_scene
from tests.analytics.incidents.suite import ALL, Said, judge, score
from tests.analytics.running import analyze_quickly

RECALL_MIN, PRECISION_MIN = 0.97, 0.97
RECORDED = {
    "first": Figures(causes=42, found=42, named=42, timed=41, said=56, true=56, disturbed=0),
    "second": Figures(causes=12, found=12, named=12, timed=12, said=18, true=18, disturbed=0),
    "third": Figures(causes=10, found=10, named=10, timed=10, said=14, true=14, disturbed=0),
}
TUNED = [one for one in ALL if not one.is_held_out]
NEEDED = (
    "summary", "queue_activity", "consumer_activity", "held_kinds", "consumers", "unattended",
    "publishers", "priorities", "replies", "kinds",
    "topology", "poison", "fates", "dead_letters", "unroutable", "routing_keys", "duplicates",
    "connections", "gaps", "stream_activity", "stream_consumers", "stream_offsets",
)  # fmt: skip
"""The tables from which findings are made."""


def said_by_vhost(found):
    """Return what findings say, by virtual host."""
    said = {}
    for one in found:
        text = " ".join((one.sentence, one.hurts, one.advice, one.evidence))
        said.setdefault(one.vhost, []).append(
            Said(one.kind, frozenset(one.about), one.since_us, one.until_us, text)
        )
    return said


def found_in(out):
    """Return the findings of tables; those that are not there are empty."""
    with DuckDBEngine() as engine:
        open_tables(engine, out)
        return every_finding(collect_evidence(engine))


def open_tables(engine, out):
    """Open all tables of a run; those that it did not write are empty."""
    where = versions.published(str(out))
    for table in TABLES:
        if not (Path(where) / table.name).exists():
            columns = ", ".join(f"null as `{one.name}`" for one in table.columns)
            nothing = f"select {columns}, cast(null as date) as {PARTITION} where false"
            engine.write_table(nothing, table, where)
        engine.open_table(where, table.name)


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    """What is said of all incidents of both sets, by virtual host: one analysis of all."""
    directory = tmp_path_factory.mktemp("incidents")
    for incident in (*ALL, *SCENES.values()):
        simulated_log.write(directory / "trace", incident.records())
    analyze_quickly(directory / "trace", directory / "out", only=NEEDED)
    return said_by_vhost(found_in(directory / "out"))


@pytest.mark.timeout(1800)
def test_what_must_be_said_is_said_and_nothing_else(said):
    verdicts = {one.name: judge(one, said.get(one.name, [])) for one in ALL}
    wrong = {one.name: found for one in TUNED if any(found := _wrong(verdicts[one.name]))}
    assert wrong == {}
    held_out = [one for one in verdicts.values() if one.incident.is_held_out]
    for some in (list(verdicts.values()), held_out):
        figures = score(some)
        assert figures.recall >= RECALL_MIN, figures
        assert figures.precision >= PRECISION_MIN, figures
        assert (figures.forbidden, figures.disturbed) == (0, 0)


def _wrong(verdict):
    return verdict.missing, verdict.wrong_times, verdict.false, verdict.forbidden


@pytest.mark.timeout(1800)
@pytest.mark.parametrize("name", RECORDED)
def test_findings_of_independent_incidents_are_no_worse_than_recorded(said, name):
    """These sets are measured. Record better figures here and in docs/operate/report.md."""
    judgements = [judge_scene(one, said.get(one.name, [])) for one in SETS[name]]
    figures, recorded = figures_of(judgements), RECORDED[name]
    wrong = {
        one.scene.name: (one.missing, one.unnamed, one.late, one.false)
        for one in judgements
        if one.missing or one.unnamed or one.late or one.false
    }
    assert figures.causes == recorded.causes
    assert figures.found >= recorded.found, wrong
    assert figures.named >= recorded.named, wrong
    assert figures.timed >= recorded.timed, wrong
    assert figures.true / figures.said >= recorded.true / recorded.said, wrong
    assert figures.disturbed <= recorded.disturbed, wrong
