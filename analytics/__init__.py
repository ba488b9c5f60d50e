"""Analysis of trace logs: the tables that PySpark makes of them, reports, journeys and searches."""
