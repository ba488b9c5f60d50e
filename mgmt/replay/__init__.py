"""leveret replay: what a trace holds is published once more, and the outcome compared."""
