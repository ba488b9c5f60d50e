"""The job that makes the tables: its steps, and the engines that it runs on, DuckDB and Spark."""
