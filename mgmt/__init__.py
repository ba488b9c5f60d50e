"""Management of a node: the command line, the HTTP API and its pages, statistics and metrics."""
