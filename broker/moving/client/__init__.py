"""The AMQP client of shovels, federation links, `leveret perf` and `leveret replay`."""
