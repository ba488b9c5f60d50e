"""Settings from an advanced.config."""

from pathlib import Path

import pytest

from leveret.broker.config import ConfigError, load_config
from leveret.broker.config.advanced import FILE_BYTES_MAX, TAKEN, Advanced
from leveret.broker.config.known_settings import OWN


@pytest.fixture(autouse=True)
def in_empty_directory(tmp_path, monkeypatch):
    """Relative file names refer to a directory of the test."""
    monkeypatch.chdir(tmp_path)


def load(text, conf="", environment=None, **flags):
    """The configuration of a rabbitmq.conf and the advanced.config beside it."""
    Path("advanced.config").write_bytes(text.encode())
    Path("rabbitmq.conf").write_text(conf)
    return load_config(Path("rabbitmq.conf"), environment or {}, flags)


def problem(text):
    with pytest.raises(ConfigError) as caught:
        load(text)
    return str(caught.value)


def test_without_the_file_there_is_nothing():
    Path("rabbitmq.conf").write_text("")
    assert load_config(Path("rabbitmq.conf"), {}, {}).advanced == Advanced()


def test_it_is_beside_the_configuration_file():
    advanced = load("[{rabbitmq_shovel, [{shovels, [{s, []}]}]}].").advanced
    assert (advanced.file, advanced.shovels) == (Path("advanced.config"), [("s", [])])
    assert advanced.not_read == []


def test_a_variable_names_another_one():
    Path("other.config").write_text("[{rabbit, [{heartbeat, 7}]}].")
    variable = {"LEVERET_ADVANCED_CONFIG": "other.config"}
    assert load("[].", environment=variable).heartbeat_s == 7
    assert load_config(None, variable, {}).heartbeat_s == 7


def test_one_that_a_variable_names_has_to_be_there():
    with pytest.raises(ConfigError, match="cannot read lost.config: No such file or directory"):
        load_config(None, {"LEVERET_ADVANCED_CONFIG": "lost.config"}, {})


def test_its_settings_replace_those_of_the_file_and_are_replaced_by_variables():
    text = "[{rabbit, [{heartbeat, 7}, {frame_max, 8192}]}]."
    config = load(text, "heartbeat = 5\nframe_max = 4096", {"LEVERET_FRAME_MAX": "16384"})
    assert (config.heartbeat_s, config.frame_max_bytes) == (7, 16384)


def test_words_texts_and_numbers_are_taken():
    config = load("""[{rabbit, [{default_user, <<"anna">>}, {default_pass, <<"sesame">>},
        {vm_memory_high_watermark, 0.25}, {disk_free_limit, 5000},
        {cluster_partition_handling, pause_minority}, {consumer_timeout, undefined}]}].""")
    assert (config.default_user, config.default_pass) == ("anna", "sesame")
    assert config.memory.high_watermark_relative == 0.25
    assert config.disk.free_limit_bytes == 5000
    assert config.cluster.partition_handling == "pause_minority"


def test_settings_that_are_not_read_are_named_without_values():
    config = load("""[{rabbit, [{heartbeat, 7}, {tcp_listeners, [5672]},
                                {disk_free_limit, {mem_relative, 1.0}}]},
        {rabbitmq_shovel, [{defaults, []}]}, {rabbitmq_management, [{listener, [{port, 1}]}, on]},
        {kernel, []}].""")
    assert config.advanced.not_read == [
        "rabbit.tcp_listeners", "rabbit.disk_free_limit", "rabbitmq_shovel.defaults",
        "rabbitmq_management.listener", "rabbitmq_management.on",
    ]  # fmt: skip


def test_an_application_may_be_there_twice():
    text = "[{rabbitmq_shovel, [{shovels, []}]}, {rabbitmq_shovel, [{shovels, [x]}]}]."
    assert load(text).advanced.shovels == ["x"]


def test_each_setting_that_is_taken_has_a_key():
    assert set(TAKEN.values()) <= set(OWN.by_key)


def test_passwords_are_not_shown():
    assert "sesame" not in repr(load('[{rabbit, [{default_pass, <<"sesame">>}]}].'))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[{rabbit, [}].", "line 1, column 12: the text has '}' where a term has to be"),
        ("[]. [].", "expected one list with a full stop after it: [{application, [...]}]."),
        ("", "expected one list with a full stop after it: [{application, [...]}]."),
        ("{rabbit, []}.", "expected one list with a full stop after it: [{application, [...]}]."),
        ("[rabbit].", "expected pairs {application, [...]}, found rabbit"),
        ('[{"rabbit", []}].', 'expected pairs {application, [...]}, found "rabbit"'),
        ("[{rabbit, x}].", "expected pairs {application, [...]}, found rabbit"),
        ("[{rabbit, [5]}].", "expected pairs {key, value} in the list of rabbit"),
        ("[{rabbit, [{heartbeat, soon}]}].",
         "heartbeat = 'soon': expected a whole number of seconds, 0 to 65535"),
        ("[" * 60, "line 1, column 51: the text is nested too deeply"),
        ("%" * (FILE_BYTES_MAX + 1), "the file is larger than 1048576 bytes"),
    ],
)  # fmt: skip
def test_a_wrong_file_is_told_with_its_name(text, told):
    assert problem(text) == f"advanced.config: {told}"


def test_a_file_that_is_not_utf_8_is_told():
    Path("advanced.config").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="advanced.config is not UTF-8 text"):
        load_config(None, {"LEVERET_ADVANCED_CONFIG": "advanced.config"}, {})
