"""The modes of the node's files do not depend on the umask."""

import logging
import os

import pytest

from leveret.broker.audit import Act
from leveret.broker.config import Config, LogSettings
from leveret.broker.private_files import make_directory, opened
from leveret.broker.requester import THE_NODE
from leveret.broker.tracing.appended_file import AppendedFile
from leveret.mgmt.audit import AuditLog
from leveret.mgmt.log.outputs import OTHER_LOGGERS, LogOutputs


@pytest.fixture(params=[0o000, 0o022, 0o077], ids=oct, autouse=True)
def umask(request):
    before = os.umask(request.param)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


def test_directories_with_their_parents(tmp_path):
    make_directory(tmp_path / "a" / "b")
    assert (mode(tmp_path / "a"), mode(tmp_path / "a" / "b")) == (0o750, 0o750)


def test_what_exists_keeps_its_mode(tmp_path):
    directory, file = tmp_path / "directory", tmp_path / "file"
    directory.mkdir()
    directory.chmod(0o700)
    file.write_text("old ")
    file.chmod(0o600)
    make_directory(directory)
    with open(file, "a", opener=opened) as one:
        one.write("new")
    assert (mode(directory), mode(file)) == (0o700, 0o600)
    assert file.read_text() == "old new"


def test_traces(tmp_path):
    AppendedFile(tmp_path / "trace" / "vhost" / "log").close()
    assert mode(tmp_path / "trace") == mode(tmp_path / "trace" / "vhost") == 0o750
    assert mode(tmp_path / "trace" / "vhost" / "log") == 0o640


async def test_the_audit_log(tmp_path):
    await AuditLog(tmp_path / "audit.log").note(THE_NODE, Act("retry", "queue", "q", ""))
    assert mode(tmp_path / "audit.log") == 0o640


def test_logs_also_after_they_were_rotated(tmp_path):
    path = tmp_path / "log" / "leveret.log"
    LogOutputs(Config(log=LogSettings(dir=path.parent, file=path.name, console=False)))
    logger = logging.getLogger("leveret")
    try:
        assert (mode(path.parent), mode(path)) == (0o750, 0o640)
        path.rename(tmp_path / "log" / "old")
        logger.error("a line")
        assert mode(path) == 0o640
        assert "a line" in path.read_text()
    finally:
        for handler in logger.handlers:
            handler.close()
        # The others share the list of handlers.
        for one in (logger, *map(logging.getLogger, OTHER_LOGGERS)):
            one.handlers, one.propagate = [], True
