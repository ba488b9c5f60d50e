"""Runs scenarios against a broker, many at a time, and gives their transcripts.

Scenarios wait much more than they work, for brokers that answer errors only after seconds and for
answers that must not come. So they run in threads, each with connections and names of its own.
"""

import json
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor

from tests.conformance.context import Context, Target
from tests.conformance.normal import normalise
from tests.conformance.scenario import Scenario

AT_ONCE = 24


class Transcripts:
    """The transcripts of scenarios that run in the background. A context manager."""

    def __init__(self, target: Target, scenarios: Iterable[Scenario], at_once: int = AT_ONCE):
        self._target = target
        self._pool = ThreadPoolExecutor(at_once)
        self._running: dict[str, Future] = {
            scenario.identifier: self._pool.submit(transcript_of, scenario, target)
            for scenario in scenarios
        }

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._pool.shutdown(cancel_futures=True)

    def of(self, scenario):
        """What the broker answered. Raises what the scenario raised."""
        return self._running[scenario.identifier].result()

    def again(self, scenario, quiet_seconds):
        """What it answers to one who listens for so long."""
        return transcript_of(scenario, self._target._replace(quiet_seconds=quiet_seconds))


def transcript_of(scenario, target):
    """Run one scenario; its transcript as JSON has it."""
    context = Context(target)
    try:
        transcript = scenario.run(context)
        return json.loads(json.dumps(normalise(transcript, context.prefix)))
    finally:
        context.clean_up()
