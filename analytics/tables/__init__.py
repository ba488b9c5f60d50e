"""The tables of a trace: their columns, and the queries that make them with either engine."""
