"""The outputs of the log: which there are, and where the log file is."""

import logging
from pathlib import Path

import pytest

from leveret.broker.config import Config, LogSettings, SettingError, load_config
from leveret.mgmt.log.outputs import OTHER_LOGGERS, LogOutputs, locations, set_level

LOGGERS = ("leveret", "leveret.queue", *OTHER_LOGGERS)


@pytest.fixture(autouse=True)
def loggers():
    """The loggers are as before when a test ends."""
    found = [logging.getLogger(name) for name in LOGGERS]
    before = [(one.level, one.handlers, one.propagate) for one in found]
    found[0].handlers = []
    yield found
    for handler in found[0].handlers:
        handler.close()
    for one, (level, handlers, propagate) in zip(found, before, strict=True):
        one.level, one.handlers, one.propagate = level, handlers, propagate
        one.manager._clear_cache()


def configured(tmp_path, *lines, **variables):
    file = tmp_path / "rabbitmq.conf"
    file.write_text("".join(f"{line}\n" for line in lines))
    return load_config(file, variables, {"data_dir": tmp_path / "data"})


@pytest.mark.parametrize(("lines", "path"), [
    (["log.file = node.log"], "data/logs/node.log"),
    (["log.file = node.log", "log.dir = {here}/logs"], "logs/node.log"),
    (["log.file = a/node.log", "log.dir = {here}/logs"], "logs/a/node.log"),
    (["log.file = {here}/node.log", "log.dir = /nowhere"], "node.log"),
])  # fmt: skip
def test_the_log_file_is_below_log_dir_unless_it_is_a_full_path(tmp_path, lines, path):
    config = configured(tmp_path, *(line.format(here=tmp_path) for line in lines))
    LogOutputs(config)
    logging.getLogger("leveret.queue").error("a line")
    assert (tmp_path / path).read_text().endswith(" a line\n")
    assert locations(config) == [str(tmp_path / path), "<stdout>"]


def test_a_relative_directory_is_a_full_path_for_all(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    config = Config(data_dir=Path("data"), log=LogSettings(file="node.log"))
    assert locations(config)[0] == str(tmp_path / "data/logs/node.log")


def test_each_output_has_its_own_level_and_form(tmp_path, capsys):
    config = configured(
        tmp_path, "log.file = node.log", "log.file.formatter = json", "log.console.level = error",
        "log.console.formatter.plaintext.format = $msg", "log.default.level = debug",
    )  # fmt: skip
    LogOutputs(config)
    logger = logging.getLogger("leveret.queue")
    logger.debug("small")
    logger.error("big")
    assert capsys.readouterr().out == "big\n"
    small, big = (tmp_path / "data/logs/node.log").read_text().splitlines()
    assert '"level":"debug","msg":"small"' in small
    assert '"level":"error","msg":"big"' in big


def test_what_aiohttp_and_asyncio_log_is_in_the_same_place(tmp_path, capsys):
    LogOutputs(configured(tmp_path, "log.console.formatter.plaintext.format = $domain $msg"))
    for name in OTHER_LOGGERS:
        logging.getLogger(name).error("a line")
    assert capsys.readouterr().out == "aiohttp.server a line\nasyncio a line\n"


@pytest.mark.parametrize(("level", "written"), [
    ("notice", ["warning", "critical"]), ("alert", []), ("none", []), ("critical", ["critical"]),
])  # fmt: skip
def test_rabbitmqs_levels(tmp_path, capsys, level, written):
    LogOutputs(configured(tmp_path, f"log.default.level = {level}",
                          "log.console.formatter.plaintext.format = $msg"))  # fmt: skip
    logger = logging.getLogger("leveret.queue")
    for name in ("info", "warning", "critical"):
        getattr(logger, name)(name)
    assert capsys.readouterr().out.split() == written


def test_a_level_that_is_set_later_is_that_of_all_outputs(tmp_path, capsys):
    LogOutputs(configured(tmp_path, "log.console.level = error",
                          "log.console.formatter.plaintext.format = $msg"))  # fmt: skip
    set_level("debug")
    logging.getLogger("leveret.queue").debug("small")
    assert capsys.readouterr().out == "small\n"


def test_the_console_may_be_the_standard_error_output(tmp_path, capsys):
    LogOutputs(configured(tmp_path, "log.console.stdio = stderr"))
    logging.getLogger("leveret").error("a line")
    written = capsys.readouterr()
    assert (written.out, "a line" in written.err) == ("", True)


@pytest.mark.parametrize(("lines", "attribute"), [
    (["log.file = {taken}/node.log"], "log.file"),
    (["log.file = node.log", "log.dir = {taken}"], "log.dir"),
])  # fmt: skip
def test_a_file_that_cannot_be_opened_is_a_wrong_setting(tmp_path, lines, attribute):
    taken = tmp_path / "taken"
    taken.write_text("a file")
    with pytest.raises(SettingError, match=f"{taken}/node.log cannot be written") as error:
        LogOutputs(configured(tmp_path, *(line.format(taken=taken) for line in lines)))
    assert error.value.attribute == attribute
