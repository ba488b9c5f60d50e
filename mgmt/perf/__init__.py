"""`leveret perf`: a load tool with PerfTest's options."""
