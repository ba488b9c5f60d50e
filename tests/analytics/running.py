"""Runs the analysis job in a test."""

import io

from leveret.analytics.job.duckdb_engine import DuckDBEngine
from leveret.analytics.job.job import JobOptions, analyze
from leveret.analytics.job.progress import JobProgress
from leveret.analytics.job.spark_engine import SparkEngine


def run(engine, options):
    return analyze(engine, options, JobProgress(engine.parts, {}, stream=io.StringIO()))


def analyze_quickly(trace, out, **options):
    """Make the tables with DuckDB, and return the counts of what was read."""
    options = JobOptions(str(trace), str(out), **options)
    with DuckDBEngine(options.work) as engine:
        return run(engine, options)


def analyze_with_spark(session, trace, out, **options):
    """Make the same tables with Spark."""
    options = JobOptions(str(trace), str(out), **options)
    with SparkEngine(session, options.work) as engine:
        return run(engine, options)
