"""The command line of a simulation: many seeds, or one seed with everything that happened in it."""

from collections.abc import Callable, Iterable
from typing import Protocol

import typer


class Simulated(Protocol):
    """A run of a simulation."""

    def run(self) -> object:
        """Run it. Raises AssertionError if a property does not hold."""


def run_command(
    make: Callable[[int, tuple[int, int]], Simulated],
    run_seed: Callable[[int, tuple[int, int]], object],
    lines: Callable[[Simulated], Iterable[str]],
    most_nodes: int,
) -> None:
    """Run the command. make: a run by seed and sizes. lines: what happened in it, for one seed."""

    def main(
        seed: int | None = None, first: int = 1, seeds: int = 1000, least: int = 2,
        most: int = most_nodes,
    ) -> None:  # fmt: skip
        if seed is None:
            for number in range(first, first + seeds):
                run_seed(number, (least, most))
            print(f"{seeds} seeds from {first} on hold")
            return
        scenario = make(seed, (least, most))
        try:
            scenario.run()
        finally:
            print("\n".join(lines(scenario)))

    app = typer.Typer(pretty_exceptions_enable=False)
    app.command(help="Run seeds of the simulation.")(main)
    app()
