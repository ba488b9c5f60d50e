"""What each step of the job takes, with each engine."""

from leveret.analytics.engines import DUCKDB, SPARK
from leveret.analytics.estimate import Cost
from leveret.analytics.tables import TABLES

_STEPS = ("reading", "flows", "queue histories", "dead letters",
          *(table.name for table in TABLES), "report")  # fmt: skip

COSTS: dict[str, dict[str, Cost]] = {
    DUCKDB: {name: Cost(0.05, 0.1) for name in _STEPS},
    SPARK: {name: Cost(1.0, 1.0) for name in _STEPS},
}
