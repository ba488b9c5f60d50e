"""Trace logs: which files there are, and their records. Needs no Spark and no tables."""
