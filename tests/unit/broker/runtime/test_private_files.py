"""The modes of the node's files do not depend on the umask."""

import logging
import os
import socket

import pytest

from leveret.broker.config import Config, LogSettings
from leveret.broker.config.setting_error import described
from leveret.broker.declarations.audit import AuditedChange
from leveret.broker.declarations.requester import THE_NODE
from leveret.broker.runtime.private_files import make_directory, naming, opened, write_whole
from leveret.broker.tracing.appended_file import AppendedFile
from leveret.mgmt.events.audit import AuditLog
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
    await AuditLog(tmp_path / "audit.log").note(THE_NODE, AuditedChange("retry", "queue", "q", ""))
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


def test_a_file_is_written_whole_with_the_mode_of_private_files(tmp_path):
    path = tmp_path / "file"
    for content in (b"one", b"two"):
        write_whole(path, content)
        assert path.read_bytes() == content
    assert mode(path) == 0o640
    assert os.listdir(tmp_path) == ["file"]


def test_a_write_to_a_full_disk_names_the_file_and_leaves_it_as_it_is(tmp_path):
    path = tmp_path / "file"
    write_whole(path, b"one")
    (tmp_path / "file.new").symlink_to("/dev/full")
    with pytest.raises(OSError) as raised:
        write_whole(path, b"two")
    reason = "No space left on device; make room on its disk"
    assert described(raised.value) == f"{path} cannot be used: {reason}"
    assert path.read_bytes() == b"one"


def test_an_error_of_a_socket_names_it(tmp_path):
    path = tmp_path / "missing" / "socket"
    with socket.socket(socket.AF_UNIX) as made, pytest.raises(OSError) as raised, naming(path):
        made.bind(str(path))
    assert described(raised.value) == f"{path} cannot be used: No such file or directory"
