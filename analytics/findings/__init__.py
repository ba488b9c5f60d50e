"""Findings: problems that the tables of a trace show, as sentences to act on."""
