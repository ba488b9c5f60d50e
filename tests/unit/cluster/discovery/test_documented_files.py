"""The files of docs/operate/clustering.md are valid, and configure what their headings say."""

import re
from pathlib import Path

import pytest

from leveret.broker.config import load_config

DOCS = Path(__file__).resolve().parents[4] / "docs"
PAGE = (DOCS / "operate" / "clustering.md").read_text(encoding="utf-8")
FILES = re.findall(r"```ini\n(.*?)```", PAGE, re.DOTALL)
BACKENDS = ("classic_config", "dns", "consul", "etcd", "kubernetes")


def load(directory, text):
    for secret in ("consul-token.txt", "etcd-password.txt"):
        (directory / secret).write_text("s3cret")
    file = directory / "rabbitmq.conf"
    file.write_text(text)
    return load_config(file, {}, {})


@pytest.mark.parametrize("text", FILES)
def test_each_file_is_valid_and_has_no_key_without_effect(tmp_path, text):
    assert load(tmp_path, text).settings_without_effect == ()


def test_there_is_a_file_for_each_backend(tmp_path):
    formations = [load(tmp_path, text).cluster_formation for text in FILES[: len(BACKENDS)]]
    assert tuple(formation.backend for formation in formations) == BACKENDS
    consul, etcd = formations[2].consul, formations[3].etcd
    assert (consul.acl_token, etcd.password) == ("s3cret", "s3cret")
