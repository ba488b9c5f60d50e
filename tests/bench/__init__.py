"""The benchmark of several brokers; run `python -m tests.bench.run` in the repository's root."""
