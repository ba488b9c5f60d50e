"""The time of each step of the job with each engine, as measured (docs/operate/analytics.md)."""

from leveret.analytics.job.engines import DUCKDB, SPARK
from leveret.analytics.job.estimate import Cost
from leveret.analytics.tables.tables import TABLES

_FEW_ROWS = {
    DUCKDB: dict.fromkeys([table.name for table in TABLES], Cost(0.01, 0.0)),
    SPARK: dict.fromkeys([table.name for table in TABLES], Cost(0.8, 0.02)),
}
"""Most tables are made from flows, whose number hardly grows."""

COSTS: dict[str, dict[str, Cost]] = {
    DUCKDB: _FEW_ROWS[DUCKDB] | {
        "reading": Cost(0.1, 3.3, 90.0),
        "flows": Cost(0.03, 0.21),
        "queue histories": Cost(0.1, 1.3),
        "queue levels": Cost(0.03, 0.17),
        "streams": Cost(0.02, 0.0),
        "dead letters": Cost(0.02, 0.07),
        "depth": Cost(0.01, 0.0),
        "consumer steps": Cost(0.04, 1.0),
        "consumer_activity": Cost(0.03, 1.4),
        "publishers": Cost(0.01, 0.05),
        "sizes": Cost(0.01, 0.04),
        "duplicates": Cost(0.01, 0.08),
        "latency": Cost(0.02, 0.1),
        "latency_histogram": Cost(0.02, 0.1),
        "dead_letter_paths": Cost(0.01, 0.02),
        "outcomes": Cost(0.01, 0.08),
        "fates": Cost(0.03, 0.42),
        "poison": Cost(0.02, 0.17),
        "consumers": Cost(0.05, 0.08),
        "anomalies": Cost(0.02, 0.0),
        "trust": Cost(0.01, 0.02),
        "queue_activity": Cost(0.01, 0.05),
        "report": Cost(0.1, 0.02),
    },
    SPARK: _FEW_ROWS[SPARK] | {
        "reading": Cost(6.0, 2.0, 60.0),
        "flows": Cost(2.8, 0.44),
        "queue histories": Cost(8.0, 1.0),
        "queue levels": Cost(1.5, 0.5),
        "streams": Cost(2.0, 0.0),
        "dead letters": Cost(2.5, 0.05),
        "consumer steps": Cost(2.5, 1.0),
        "consumer_activity": Cost(1.5, 0.5),
        "publishers": Cost(0.8, 0.1),
        "sizes": Cost(0.5, 0.1),
        "duplicates": Cost(0.8, 0.23),
        "latency": Cost(1.5, 0.35),
        "latency_histogram": Cost(1.0, 0.17),
        "outcomes": Cost(1.0, 0.17),
        "fates": Cost(2.3, 0.6),
        "poison": Cost(1.2, 0.3),
        "consumers": Cost(1.7, 0.87),
        "anomalies": Cost(2.0, 0.0),
        "report": Cost(8.0, 0.0),
    },
}  # fmt: skip
"""By engine and step. Measured with two processors and the logs of generate.py."""
