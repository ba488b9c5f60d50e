"""Writes only tables that are counted from flows, in place of all.

Spark takes longest for intermediate results, of which these tables need the fewest.
"""

from leveret.analytics.job.job import Made, stage_flows, write_staged
from leveret.analytics.tables import flow_tables
from leveret.analytics.tables.copied_events import count_once
from leveret.analytics.tables.plausible import implausible
from leveret.analytics.tables.trust import LeftOut


def write_counts(engine, options, progress, reading):
    """Write the tables that are chosen, of those that this makes."""
    engine.view("valid", "select * from records where wrong is null")
    left_out = LeftOut(implausible(engine), count_once(engine))
    engine.stage("flows_by_key", flow_tables.FLOWS_BY_KEY)
    stage_flows(engine)
    write_staged(engine, options, progress, Made(reading, left_out, flow_tables.QUERIES))
