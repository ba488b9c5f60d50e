"""The forms of a log line: RabbitMQ's, with text that cannot forge a line."""

import json
import logging
import re
import sys

import pytest
from aiohttp.http_exceptions import BadHttpMessage

from leveret.broker.config import LogSettings, load_config
from leveret.mgmt.log.formatting import formatter_of


def record(text="a line", *arguments, level=logging.INFO, name="leveret.connection", error=None):
    made = logging.LogRecord(name, level, "/somewhere/login.py", 49, text, arguments, error, "open")
    made.created, made.process = 1_700_000_000.614250, 4711
    return made


def formatter(tmp_path, *lines):
    """The formatter of the console that these lines of a configuration make."""
    file = tmp_path / "rabbitmq.conf"
    file.write_text("".join(f"log.console.formatter{line}\n" for line in lines))
    return formatter_of(load_config(file, {}, {}).log.console_output)


def error_of(raised):
    try:
        raise raised
    except type(raised):
        return sys.exc_info()


def test_a_line_begins_as_rabbitmqs_do(tmp_path):
    line = formatter(tmp_path).format(record("user '%s'", "ann"))
    time, rest = line[:32], line[32:]
    assert re.fullmatch(r"2023-11-1\d \d\d:\d\d:20\.614250[+-]\d\d:\d\d", time)
    assert rest == " [info] <0.4711.0> user 'ann'"


@pytest.mark.parametrize(("form", "time"), [
    ("rfc3339_T", r"2023-11-1\dT\d\d:\d\d:20\.614250[+-]\d\d:\d\d"),
    ("epoch_secs", r"1700000000\.614250"), ("epoch_usecs", r"1700000000614250"),
    ("lager_default", r"2023-11-1\d \d\d:\d\d:20\.614"),
])  # fmt: skip
def test_the_forms_of_a_time(tmp_path, form, time):
    made = formatter(tmp_path, f".time_format = {form}", ".plaintext.format = $time")
    assert re.fullmatch(time, made.format(record()))


@pytest.mark.parametrize(("form", "level"), [
    ("lc", "warning"), ("uc", "WARNING"), ("lc3", "wrn"), ("uc4", "WARN"),
])  # fmt: skip
def test_the_forms_of_a_level(tmp_path, form, level):
    made = formatter(tmp_path, f".level_format = {form}", ".plaintext.format = $level")
    assert made.format(record(level=logging.WARNING)) == level


def test_a_format_has_variables(tmp_path):
    made = formatter(tmp_path, ".plaintext.format = $domain|$file:$line|$nothing|$msg|")
    assert made.format(record()) == "rabbitmq.connection|login.py:49|<unknown nothing>|a line|"


def test_each_line_of_a_traceback_begins_like_the_first(tmp_path):
    made = formatter(tmp_path, ".plaintext.format = [$level] $msg")
    lines = made.format(record(error=error_of(ValueError("no\x1b")))).splitlines()
    assert lines[0] == "[info] a line"
    assert lines[1] == "[info] Traceback (most recent call last):"
    assert lines[-1] == "[info] ValueError: no\\x1b"


def test_a_traceback_on_a_single_line(tmp_path):
    made = formatter(tmp_path, ".plaintext.format = $msg", ".single_line = on")
    line = made.format(record(error=error_of(ValueError("no"))))
    assert line.startswith("a line, Traceback (most recent call last):, File ")
    assert line.endswith(", ValueError: no")


def test_a_name_forges_no_line(tmp_path):
    made = formatter(tmp_path, ".plaintext.format = $msg")
    assert made.format(record("eve\n2030 all is well\x1b[2J\u2028")) == (
        "eve\\n2030 all is well\\x1b[2J\\u2028"
    )


def test_an_invalid_request_is_not_repeated(tmp_path):
    line = formatter(tmp_path).format(record(error=error_of(BadHttpMessage("Basic c2VjcmV0"))))
    assert "BadHttpMessage: the request cannot be read" in line
    assert "c2VjcmV0" not in line


def test_json_has_rabbitmqs_fields_in_their_order(tmp_path):
    line = formatter(tmp_path, " = json").format(record("eve\n2030"))
    assert "\n" not in line
    fields = json.loads(line)
    assert list(fields)[:3] == ["time", "level", "msg"]
    assert re.match(r"2023-11-1\d \d\d:\d\d:20\.614250", fields.pop("time"))
    assert fields == {
        "level": "info", "msg": "eve\n2030", "domain": "rabbitmq.connection", "file": "login.py",
        "line": 49, "mfa": ["login", "open"], "pid": "<0.4711.0>",
    }  # fmt: skip


def test_json_fields_are_renamed_ordered_and_left_out(tmp_path):
    made = formatter(
        tmp_path, " = json", ".json.field_map = msg:message time:ts level *:-",
        ".json.verbosity_map = info:6 error:3", ".time_format = epoch_usecs",
    )  # fmt: skip
    assert made.format(record()) == ('{"message":"a line","ts":1700000000614250,"level":"info"}')
    made = formatter(tmp_path, " = json", ".json.field_map = pid:-",
                     ".json.verbosity_map = info:6")  # fmt: skip
    fields = json.loads(made.format(record()))
    assert fields["verbosity"] == 6
    assert "pid" not in fields


@pytest.mark.parametrize(("name", "domain"), [
    ("leveret", "rabbitmq"), ("leveret.queue", "rabbitmq.queue"), ("asyncio", "asyncio"),
])  # fmt: skip
def test_domains_are_rabbitmqs(tmp_path, name, domain):
    made = formatter(tmp_path, ".plaintext.format = $domain")
    assert made.format(record(name=name)) == domain


def test_every_output_has_the_same_settings():
    log = LogSettings()
    assert log.console_output == log.file_output == log.exchange_output == log.syslog_output
