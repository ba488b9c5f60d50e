"""Programs that are clients of a broker: leveretctl, perf, replay."""
