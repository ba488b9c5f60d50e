"""The side-by-side benchmark; `python -m tests.bench.run` from the repository's root runs it."""
