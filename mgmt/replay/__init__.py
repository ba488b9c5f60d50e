"""leveret replay: publishes the messages of a trace again and compares the result."""
