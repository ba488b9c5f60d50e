"""The configuration of a rabbitmq.conf with the text of a test."""

from collections.abc import Mapping
from pathlib import Path

from leveret.broker.config import Config, load_config


def load(
    text: str, environment: Mapping[str, str] | None = None, directory: Path = Path(),
    **flags: object,
) -> Config:  # fmt: skip
    """Write rabbitmq.conf to a directory, by default the current one, and load it."""
    file = directory / "rabbitmq.conf"
    file.write_text(text, encoding="utf-8")
    return load_config(file, environment or {}, flags)
