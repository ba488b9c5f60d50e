"""The example in docs/operate/examples reads the tables of a known trace, with right answers."""

import runpy
import sys
from pathlib import Path

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "operate" / "examples" / "read_tables.py"
ANSWERS = (
    "fate acknowledged dead_lettered dropped never_acknowledged never_delivered",
    "/ a 2 1 0 0 0",
    "b 0 0 0 2 0",
    "graveyard 0 0 0 0 1",
    "purged 0 0 1 0 0",
    "steady 390 0 0 0 0",
    "Gaps in the logs: 1",
    "b in /: 99 of 100 waited up to 1.000 s at 08:00",
    "steady in /: 99 of 100 waited up to 0.000 s at 08:01",
    "|/ |b |of stuck |stuck |1 |2026-01-05 08:00:03|",
    "|b |2 |twin |1 |stuck |",
)


def test_tables_are_read_with_pandas_duckdb_and_spark(spark, known_tables, monkeypatch, capfd):
    """Spark's session is that of the other tests."""
    zone = spark.conf.get("spark.sql.session.timeZone")
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), known_tables])
    try:
        runpy.run_path(str(EXAMPLE))
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone)
    said = [" ".join(line.split()) for line in capfd.readouterr().out.splitlines()]
    assert [one for one in ANSWERS if one not in said] == []
