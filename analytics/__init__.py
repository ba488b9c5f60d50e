"""Analysis of trace logs: tables made with DuckDB or Spark, reports, journeys, and searches."""
