"""Declarations: one flat table for the settings of a dataclass and its sections."""

from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import pytest

from leveret.broker.config import SETTINGS, Config
from leveret.broker.config.declaration import Setting, make, section, setting, settings_of
from leveret.broker.config.value_kinds import BOOLEAN, TEXT


@dataclass(frozen=True)
class Doors:
    """A section that is used twice."""

    locked: bool = setting("locked", BOOLEAN, False, "Whether they are locked.")
    code: str = setting("code", TEXT, "", "What opens them.", is_secret=True)


@dataclass(frozen=True)
class Burrow:
    """The settings of a burrow."""

    name: str = setting("name title", TEXT, "home", "What it is called.", flag="name")
    front: Doors = section(Doors, "front.doors")
    back: Doors = section(Doors, "back.doors rear.doors", described_as="front.doors")


@pytest.fixture
def table() -> dict[str, Setting]:
    """The declarations by attribute."""
    return {declared.attribute: declared for declared in settings_of(Burrow)}


def test_the_table_has_the_settings_of_all_sections_in_the_order_of_the_fields(
    table: dict[str, Setting],
) -> None:
    assert list(table) == ["name", "front.locked", "front.code", "back.locked", "back.code"]


def test_the_keys_of_a_section_have_its_prefixes(table: dict[str, Setting]) -> None:
    assert table["name"].keys == ("name", "title")
    assert table["front.locked"].keys == ("front.doors.locked",)
    assert table["back.locked"].keys == ("back.doors.locked", "rear.doors.locked")


def test_a_variable_is_named_after_the_flag_or_the_first_key(table: dict[str, Setting]) -> None:
    assert table["name"].variable == "LEVERET_NAME"
    assert table["back.locked"].variable == "LEVERET_BACK_DOORS_LOCKED"


def test_a_section_that_is_used_again_refers_to_the_description_of_the_first(
    table: dict[str, Setting],
) -> None:
    assert table["front.locked"].purpose == "Whether they are locked."
    assert table["back.locked"].purpose == "As front.doors.locked."


def test_make_puts_values_into_their_sections_and_keeps_defaults() -> None:
    made = make(Burrow, {"name": "warren", "back.locked": True})
    assert made == Burrow(name="warren", back=Doors(locked=True))


def test_repr_shows_no_secret(table: dict[str, Setting]) -> None:
    assert "1234" not in repr(make(Burrow, {"front.code": "1234"}))
    assert table["front.code"].is_secret


def attributes_of(settings: Any, path: str = "") -> set[str]:
    """Return the attributes of a dataclass and its sections, with dots."""
    found: set[str] = set()
    for each in fields(settings):
        value = getattr(settings, each.name)
        if is_dataclass(value):
            found |= attributes_of(value, f"{path}{each.name}.")
        else:
            found.add(path + each.name)
    return found


def test_every_attribute_of_the_configuration_is_declared() -> None:
    declared = {setting.attribute for setting in SETTINGS}
    assert attributes_of(Config()) - declared == {
        "settings_without_effect", "advanced.file", "advanced.applications", "extensions",
        "origins", "plugins_file",
    }  # fmt: skip


def test_no_two_settings_share_a_key() -> None:
    keys = [key for setting in SETTINGS for key in setting.keys]
    assert len(set(keys)) == len(keys)
