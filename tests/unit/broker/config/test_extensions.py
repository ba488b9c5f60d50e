"""Settings of an installed package, in a section of its own."""

import sys

import pytest

from leveret.broker.config import Config, ConfigError, SettingError, explain
from leveret.broker.config.known_settings import SECTIONS
from tests.installed_package import MODULE, install_in
from tests.rabbitmq_conf import load

SOURCE = """
from dataclasses import dataclass

from leveret.broker.config.declaration import listed_setting, setting
from leveret.broker.config.value_kinds import PORT, TEXT


@dataclass(frozen=True)
class Greeter:
    port: int = setting("greeter.port", PORT, 4000, "The port that greets.")
    words: tuple[str, ...] = listed_setting("greeter.words.$n", TEXT, ("hello",), "The words.")
    password: str = setting("greeter.password", TEXT, "", "A secret.", is_secret=True)
"""


@pytest.fixture
def install(monkeypatch, tmp_path):
    def install_section(source=SOURCE):
        install_in(monkeypatch, tmp_path, [SECTIONS], "greeter", source, "Greeter")

    return install_section


def section_of(config: Config):
    return config.extension(sys.modules[MODULE].Greeter)


def test_a_file_and_the_environment_set_them(install, tmp_path):
    install()
    text = "greeter.port = 4001\ngreeter.words.1 = hi\ngreeter.words.2 = ho\nheartbeat = 7\n"
    config = load(text, {"LEVERET_GREETER_PASSWORD": "s3cret"}, directory=tmp_path)
    greeter = section_of(config)
    assert (greeter.port, greeter.words, greeter.password) == (4001, ("hi", "ho"), "s3cret")
    assert config.heartbeat_s == 7


def test_a_section_that_nothing_was_given_for_has_its_defaults(install, tmp_path):
    install()
    assert section_of(load("heartbeat = 7\n", directory=tmp_path)).port == 4000
    assert section_of(Config()).words == ("hello",)


def test_a_package_is_not_looked_at_for_own_settings(install, tmp_path, monkeypatch):
    install()
    monkeypatch.setitem(vars(SECTIONS), "_installed", None)
    assert load("heartbeat = 7\n", directory=tmp_path).heartbeat_s == 7


def test_they_are_shown_but_for_secrets(install, tmp_path):
    install()
    config = load("greeter.port = 1\n", directory=tmp_path)
    shown = {one.keys[0]: value for one, value in config.shown() if one.keys}
    assert (shown["greeter.port"], shown["greeter.words.$n"]) == (1, ("hello",))
    assert "greeter.password" not in shown


def test_an_invalid_value_is_reported_as_any_other(install, tmp_path):
    install()
    with pytest.raises(ConfigError, match="line 1: greeter.port = 'x': expected a whole number"):
        load("greeter.port = x\n", directory=tmp_path)


def test_an_unknown_key_has_a_hint(install, tmp_path):
    install()
    with pytest.raises(ConfigError, match="did you mean 'greeter.port'"):
        load("greeter.prot = 1\n", directory=tmp_path)


def test_a_setting_that_cannot_be_followed_is_explained(install, tmp_path):
    install()
    error = SettingError("extensions.greeter.port", "the port is taken")
    given = load("greeter.port = 4001\n", directory=tmp_path)
    assert explain(given, error).endswith("line 1: greeter.port: the port is taken")
    assert "LEVERET_GREETER_PORT" in explain(Config(), error)


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (SOURCE.replace("greeter.port", "heartbeat"), "there is another setting 'heartbeat'"),
        ("Greeter = 7\n", "it is not a dataclass of settings"),
    ],
)
def test_a_section_that_does_not_fit_is_left_out(install, tmp_path, caplog, source, reason):
    install(source)
    with pytest.raises(ConfigError, match="unknown key 'greeter.port'"):
        load("greeter.port = 1\n", directory=tmp_path)
    assert caplog.messages == [f"'greeter' of leveret.settings is left out: {reason}"]
