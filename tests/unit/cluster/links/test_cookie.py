"""Where the cookie comes from, and which files are refused."""

import os
import stat

import pytest

from leveret.broker.config import SettingError
from leveret.cluster.links.cookie import COOKIE_FILE, load_cookie


def written(path, content=b"the cookie of another node\n", mode=0o600):
    path.write_bytes(content)
    path.chmod(mode)
    return path


def test_a_cookie_is_made_once_and_only_its_owner_can_read_it(tmp_path):
    old = os.umask(0)
    try:
        cookie = load_cookie(tmp_path)
    finally:
        os.umask(old)
    assert len(cookie) >= 40
    assert load_cookie(tmp_path) == cookie
    assert stat.S_IMODE((tmp_path / COOKIE_FILE).stat().st_mode) == 0o600
    assert [path.name for path in tmp_path.iterdir()] == [COOKIE_FILE]


def test_two_data_directories_have_different_cookies(tmp_path):
    first, second = tmp_path / "1", tmp_path / "2"
    first.mkdir()
    second.mkdir()
    assert load_cookie(first) != load_cookie(second)


def test_the_setting_comes_before_the_named_file_and_that_before_the_data_directory(tmp_path):
    named = written(tmp_path / "named", b"  the cookie of the file \r\n")
    assert load_cookie(tmp_path, "the cookie of the setting", named) == b"the cookie of the setting"
    assert load_cookie(tmp_path, "", named) == b"the cookie of the file"
    assert not (tmp_path / COOKIE_FILE).exists()


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o644, 0o660, 0o610])
def test_a_file_that_others_can_use_is_refused(tmp_path, mode):
    path = written(tmp_path / COOKIE_FILE, mode=mode)
    with pytest.raises(SettingError, match=f"mode {mode:04o}.*run chmod 600 {path}"):
        load_cookie(tmp_path)


def test_an_empty_file_is_refused(tmp_path):
    written(tmp_path / COOKIE_FILE, b"\n")
    with pytest.raises(SettingError, match="has no cookie: write the one of the other nodes"):
        load_cookie(tmp_path)


def test_a_missing_file_that_was_named_is_an_error(tmp_path):
    with pytest.raises(SettingError, match="nowhere cannot be read: No such file") as caught:
        load_cookie(tmp_path, "", tmp_path / "nowhere")
    assert caught.value.attribute == "cluster.cookie_file"


def test_a_short_cookie_is_warned_of(tmp_path, caplog):
    assert load_cookie(tmp_path, "secret") == b"secret"
    assert "has 6 characters: use 16 or more" in caplog.text
    assert "secret" not in caplog.text


def test_a_file_that_a_crash_left_behind_does_not_matter(tmp_path):
    written(tmp_path / "cluster.cookie.new", b"half a coo")
    assert len(load_cookie(tmp_path)) >= 40
