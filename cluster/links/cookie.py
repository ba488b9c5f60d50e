"""The cookie: the secret that nodes of one cluster share.

A peer that knows it has full control of a node. It comes from the first of: the setting
(LEVERET_COOKIE), the file that cluster.cookie_file names, and the file cluster.cookie in the data
directory, which is created with a random cookie if it is missing. Blanks and line ends around the
cookie are ignored. A file that users other than its owner can read is refused, as in Erlang.
"""

import logging
import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from leveret.broker.config import SettingError

COOKIE_FILE = "cluster.cookie"
RANDOM_OCTETS = 32
SHORT_CHARACTERS = 16
"""An attacker that impersonates a dialled node could guess a shorter one."""

logger = logging.getLogger("leveret.cluster")


def load_cookie(data_dir: Path, cookie: str = "", cookie_file: Path | None = None) -> bytes:
    """The cookie of this node. Raises SettingError. cookie: empty if it is not set."""
    if cookie.strip():
        return _checked(cookie.strip().encode(), "cluster.cookie", "cluster.cookie")
    if cookie_file is not None:
        return _read(cookie_file, "cluster.cookie_file")
    path = data_dir / COOKIE_FILE
    if not path.exists():
        _make(path)
    return _read(path, "cluster.cookie_file")


def _read(path: Path, attribute: str) -> bytes:
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise SettingError(
                    attribute,
                    f"the cookie in {path} can be read by others than its owner (mode "
                    f"{stat.S_IMODE(mode):04o}), who could do everything to this node: "
                    f"run chmod 600 {path}, and change the cookie on all nodes if others may have "
                    "read it",
                )
            content = file.read().strip()
    except OSError as error:
        raise SettingError(
            attribute, f"the cookie in {path} cannot be read: {error.strerror}"
        ) from None
    return _checked(content, f"the file {path}", attribute)


def _checked(cookie: bytes, place: str, attribute: str) -> bytes:
    if not cookie:
        raise SettingError(
            attribute,
            f"{place} has no cookie: write the one of the other nodes to it, or remove the file, "
            "and a new one is made",
        )
    if len(cookie) < SHORT_CHARACTERS:
        logger.warning(
            "the cookie from %s has %d characters: use %d or more, so that it cannot be guessed",
            place, len(cookie), SHORT_CHARACTERS,
        )  # fmt: skip
    return cookie


def _make(path: Path) -> None:
    """Create a random cookie atomically. Raises SettingError."""
    temporary = path.with_suffix(".cookie.new")
    try:
        with suppress(FileNotFoundError):
            temporary.unlink()
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, 0o600)
            file.write(secrets.token_urlsafe(RANDOM_OCTETS).encode() + b"\n")
            file.flush()
            os.fsync(descriptor)
        temporary.rename(path)
    except OSError as error:
        raise SettingError(
            "data_dir", f"the cookie {path} cannot be written: {error.strerror}"
        ) from None
    logger.info("made a cookie for links between nodes: %s", path)
