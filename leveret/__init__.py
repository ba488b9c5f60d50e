"""Leveret: an AMQP 0-9-1 broker.

The package's parts are the folders at the top of the repository, linked here so that they are
imported under one name: `leveret.broker`, `leveret.storage`, `leveret.mgmt`, `leveret.analytics`.
"""

from importlib import import_module

from leveret.compiled import choose_build

choose_build()

__version__: str
"""The version that is installed, or "unreleased" in a checkout that is not installed."""


def __getattr__(name: str) -> str:
    """Look `__version__` up when it is first used: reading the metadata takes 5 to 30 ms.

    Raises AttributeError for any other name.
    """
    if name != "__version__":
        raise AttributeError(f"module 'leveret' has no attribute {name!r}")
    metadata = import_module("importlib.metadata")
    try:
        version: str = metadata.version("leveret")
    except metadata.PackageNotFoundError:
        version = "unreleased"
    globals()["__version__"] = version
    return version
