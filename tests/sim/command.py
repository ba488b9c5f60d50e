"""The command line of a simulation: many seeds, or one seed with everything that happened in it."""

from collections.abc import Callable, Iterable
from typing import Any, Protocol

import typer

from tests.sim.properties import Broken

LINES = 80
"""How much of what happened is shown with a failure; a replay prints all of it."""
LINE_MAX = 200


class Simulated(Protocol):
    """A run of a simulation."""

    def run(self) -> object:
        """Run it. Raises AssertionError if a property does not hold."""

    def lines(self) -> Iterable[str]:
        """What has happened in it so far."""


def run_scenario(scenario: Simulated, seed: int, sizes: tuple[int, int], command: str) -> Any:
    """Run the scenario of a seed, and return it; a failure names the seed."""
    try:
        scenario.run()
    except AssertionError as error:
        shown = "".join(f"{line[:LINE_MAX]}\n" for line in [*scenario.lines()][-LINES:])
        raise Broken(
            f"seed {seed}: {error}\n{shown}replay: python -m tests.sim.{command} --seed {seed}"
            f" --least {sizes[0]} --most {sizes[1]}"
        ) from error
    return scenario


def run_command(
    make: Callable[[int, tuple[int, int]], Simulated],
    run_seed: Callable[[int, tuple[int, int]], object],
    most_nodes: int,
) -> None:
    """Run the command. make: a run by seed and sizes."""

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
            print("\n".join(scenario.lines()))

    app = typer.Typer(pretty_exceptions_enable=False)
    app.command(help="Run seeds of the simulation.")(main)
    app()
