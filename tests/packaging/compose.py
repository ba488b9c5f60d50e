"""Reads a file for docker compose: what it says of the services that run a node.

Only the forms that docker/compose.yaml uses are read: lists as commands, maps as environments,
short volumes and ports, and variables as `${NAME:-default}` or `${NAME:?what to do}`.
"""

import re
from dataclasses import dataclass
from pathlib import Path

import yaml

IMAGE = "leveret"
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")
SECONDS = {"ms": 0.001, "s": 1, "m": 60}


@dataclass(frozen=True)
class Volume:
    """source: a path on the host, which begins with a dot, or the name of a volume."""

    source: str
    target: str
    is_read_only: bool


@dataclass(frozen=True)
class HealthCheck:
    """The command of a health check, and when it is run."""

    command: list[str]
    interval_s: float
    timeout_s: float
    retries: int
    start_period_s: float


@dataclass(frozen=True)
class Service:
    """A service. ports: pairs of the host's and the container's."""

    name: str
    image: str
    host: str
    address: str
    command: list[str]
    environment: dict[str, str]
    volumes: list[Volume]
    ports: list[tuple[int, int]]
    waits_for: dict[str, str]
    health_check: HealthCheck | None
    stop_s: float


class VariableMissing(Exception):
    """A variable that must be set is not; the text is the file's."""


def services_of(file: Path, variables: dict[str, str]) -> dict[str, Service]:
    """The services of a file, by name. variables: those of the shell."""
    text = VARIABLE.sub(lambda match: _value(match, variables), file.read_text(encoding="utf-8"))
    content = yaml.safe_load(text)
    return {name: _service(name, said) for name, said in content["services"].items()}


def _value(match: re.Match[str], variables: dict[str, str]) -> str:
    name, kind, text = match.groups()
    if variables.get(name):
        return variables[name]
    if kind == "-":
        return text
    raise VariableMissing(f"{name}: {text}")


def _service(name, said):
    waits_for = said.get("depends_on", {})
    if isinstance(waits_for, list):
        waits_for = {other: {"condition": "service_started"} for other in waits_for}
    (network,) = said["networks"].values()
    return Service(
        name=name,
        image=said["image"],
        host=said.get("hostname", name),
        address=network["ipv4_address"],
        command=said.get("command", []),
        environment={key: str(value) for key, value in said.get("environment", {}).items()},
        volumes=[_volume(text) for text in said.get("volumes", [])],
        ports=[_port(text) for text in said.get("ports", [])],
        waits_for={other: how["condition"] for other, how in waits_for.items()},
        health_check=_health_check(said["healthcheck"]) if "healthcheck" in said else None,
        stop_s=_seconds(said.get("stop_grace_period", "10s")),
    )


def _volume(text):
    source, target, *options = text.split(":")
    return Volume(source, target, options == ["ro"])


def _port(text):
    *_, published, inside = text.split(":")
    return int(published), int(inside)


def _health_check(said):
    kind, *command = said["test"]
    assert kind == "CMD"
    return HealthCheck(
        command,
        _seconds(said["interval"]),
        _seconds(said["timeout"]),
        said["retries"],
        _seconds(said["start_period"]),
    )


def _seconds(text):
    number, unit = re.fullmatch(r"(\d+)(ms|s|m)", text).groups()
    return int(number) * SECONDS[unit]
