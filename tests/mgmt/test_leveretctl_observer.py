"""`leveretctl observer` on a terminal of 80 columns and 24 lines."""

import codecs
import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

import pytest

from tests.patience import PATIENCE_SECONDS

COLUMNS, LINES = 80, 24
HOME, LAST = "\x1b[H", "╯"
ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """A program on a terminal: its display, and keys for it."""

    def __init__(self, command):
        self._ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", LINES, COLUMNS, 0, 0))
        self.settings = termios.tcgetattr(theirs)
        self.theirs = theirs
        self.shown = ""
        # A read may end within a character.
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self.process = subprocess.Popen(
            command, stdin=theirs, stdout=theirs, stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "", "LINES": ""},
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
        )  # fmt: skip

    def press(self, key):
        self.shown = ""
        os.write(self._ours, key.encode())

    def read(self, seconds=0.1):
        ready, _, _ = select.select([self._ours], [], [], seconds)
        if ready:
            self.shown += self._decoder.decode(os.read(self._ours, 65536))

    def wait_for(self, *texts):
        """Return the lines of the first complete picture that contains all these texts."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            # Each picture is drawn from the terminal's first line on.
            for picture in self.shown.split(HOME):
                plain = ESCAPES.sub("", picture).replace("\r", "")
                if all(text in plain for text in texts) and plain.rstrip().endswith(LAST):
                    return plain.rstrip().split("\n")
            assert time.monotonic() < deadline, (texts, self.shown)
            assert self.process.poll() is None, self.shown
            self.read()

    def ended(self):
        """The exit code."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while self.process.poll() is None and time.monotonic() < deadline:
            self.read()
        return self.process.poll()

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._ours)
        os.close(self.theirs)


@pytest.fixture
def terminal(node, interrupts):
    opened = Terminal(
        [
            sys.executable,
            "-m",
            "leveret.mgmt.ctl.leveretctl",
            "--data-dir",
            str(node.data_dir),
            "observer",
        ]
    )
    yield opened
    opened.close()


def test_pages_are_shown_and_q_ends_it(terminal, node, vhost):
    node.put(f"queues/{vhost}/watched", {"durable": True})
    for number in range(40):
        node.put(f"queues/{vhost}/q{number}-{'x' * 60}", {"durable": True})
    terminal.wait_for(f"Leveret {node.name} - overview", "publish", "q quit")
    for key, title in (("2", "queues"), ("3", "connections"), ("4", "memory"), ("1", "overview")):
        terminal.press(key)
        lines = terminal.wait_for(f"{node.name} - {title}", "q quit")
        assert len(lines) <= LINES, lines
        assert max(map(len, lines)) <= COLUMNS, lines
    terminal.press("q")
    assert terminal.ended() == 0
    assert termios.tcgetattr(terminal.theirs) == terminal.settings


def test_control_c_ends_it_as_well(terminal, node):
    terminal.wait_for(f"Leveret {node.name} - overview")
    terminal.press("\x03")
    assert terminal.ended() == 0
    assert termios.tcgetattr(terminal.theirs) == terminal.settings


def test_without_a_terminal_it_shows_the_node_once(node):
    done = subprocess.run(
        [sys.executable, "-m", "leveret.mgmt.ctl.leveretctl",
         "--data-dir", str(node.data_dir), "observer"],
        input="", capture_output=True, text=True, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert (done.returncode, "overview" in done.stdout, "queues" in done.stdout) == (0, True, True)
