"""What a migration asks at a terminal, and what counts as an answer."""

import io
import sys

import pytest

from leveret.mgmt.ctl.errors import INTERRUPTED, USAGE, CtlError
from leveret.mgmt.ctl.migrating.asking import PASSWORD_VARIABLE, is_agreed, password_of


class Terminal:
    """Standard input, with what is typed."""

    def __init__(self, typed=b""):
        self.buffer = io.BytesIO(typed)

    def isatty(self):
        return True


@pytest.fixture
def typed(monkeypatch):
    """Type at the terminal."""
    monkeypatch.delenv(PASSWORD_VARIABLE, raising=False)
    return lambda text: monkeypatch.setattr(sys, "stdin", Terminal(text))


def answer(text, typed):
    """Whether a person agrees who types this, and what is said."""
    typed(text)
    said = []
    return is_agreed(said.append), said


@pytest.mark.parametrize("text", [b"y\n", b"Yes\n", b" YES \n", b"what\n\xff\xfe\ny\n"])
def test_yes(typed, text):
    assert answer(text, typed)[0]


@pytest.mark.parametrize("text", [b"n\n", b"No\n", b"\n", b"", b"yess\n"])
def test_anything_else_is_no(typed, text):
    agreed, said = answer(text, typed)
    assert (agreed, said[-1]) == (False, "Nothing is changed.")


def test_a_script_agrees_with_an_option(monkeypatch):
    for stdin in (io.StringIO("y\n"), None):
        monkeypatch.setattr(sys, "stdin", stdin)
        said = []
        assert not is_agreed(said.append)
        assert said == ["Nothing is changed: --yes carries the plan out."]


@pytest.mark.parametrize(
    ("pressed", "code", "said"),
    [(EOFError, USAGE, "no password was given"), (KeyboardInterrupt, INTERRUPTED, "Broken off")],
    ids=["Ctrl-D", "Ctrl-C"],
)
def test_no_password_is_typed(typed, monkeypatch, pressed, code, said):
    typed(b"")

    def asked(_prompt):
        raise pressed

    monkeypatch.setattr("getpass.getpass", asked)
    with pytest.raises(CtlError) as refusal:
        password_of("mover", "amqp://old", "")
    assert refusal.value.code == code
    assert said in refusal.value.text
    assert "Nothing is changed by this command" in refusal.value.text


def test_a_password_is_asked_for_with_user_and_place(typed, monkeypatch):
    typed(b"")
    asked = []
    monkeypatch.setattr("getpass.getpass", lambda prompt: asked.append(prompt) or "secret")
    assert password_of("mover", "amqp://old", "") == "secret"
    assert asked == ["Password of mover at amqp://old: "]
