"""`$(key)` in a value of the configuration file, as in cuttlefish, RabbitMQ's reader."""

from pathlib import Path

import pytest

from leveret.broker.config import ConfigError
from tests.rabbitmq_conf import load


@pytest.fixture(autouse=True)
def in_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_a_value_has_the_values_of_other_keys():
    config = load("data_dir = /var/lib/mq\nlog.dir = $(data_dir)/log\ncluster_name = $( data_dir )")
    assert config.log.dir == Path("/var/lib/mq/log")
    assert config.cluster_name == "/var/lib/mq"


def test_those_have_values_of_others():
    config = load(
        "default_user = $(cluster_name)-$(default_vhost)\n"
        "cluster_name = $(default_vhost)x\n"
        "default_vhost = v"
    )
    assert config.default_user == "vx-v"


def test_the_last_value_of_a_key_counts():
    assert (
        load("default_vhost = a\ndefault_user = $(default_vhost)\ndefault_vhost = b").default_user
        == "b"
    )


def test_a_key_of_an_included_file_can_be_meant():
    Path("site.conf").write_text("default_vhost = eu\n")
    assert (
        load("include site.conf\ncluster_name = rabbits-$(default_vhost)").cluster_name
        == "rabbits-eu"
    )


def test_a_name_that_no_file_has_is_a_variable_of_the_environment():
    config = load("default_pass = $(MQ_PASS)", {"MQ_PASS": "s3cret $(x)"})
    assert config.default_pass == "s3cret $(x)"
    assert (
        load("heartbeat = 5\ncluster_name = $(heartbeat)", {"heartbeat": "6"}).cluster_name == "5"
    )


def test_a_value_in_single_quotes_refers_too():
    assert load("default_pass = 'a#$(P)'", {"P": "b"}).default_pass == "a#b"


def test_the_content_of_a_file_is_taken_as_it_is():
    Path("secret.txt").write_text("p$(q)\n")
    config = load("default_pass = $(<secret.txt)\ndefault_user = $(default_pass)")
    assert config.default_pass == config.default_user == "p$(q)"


@pytest.mark.parametrize("text", ["$", "$(", "${user}", "$time [$level]", "a$", "$)("])
def test_other_dollar_signs_mean_themselves(text):
    assert load(f"default_pass = '{text}'").default_pass == text


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "heartbeat = 5\ndefault_pass = $(MQ_PASS)",
            "rabbitmq.conf line 2: default_pass: $(MQ_PASS) refers to a key that no file sets and "
            "to no variable of the environment; set one of them, or write the value itself",
        ),
        (
            "default_pass = $()",
            "rabbitmq.conf line 1: default_pass: $() refers to a key that no file sets and to no "
            "variable of the environment; set one of them, or write the value itself",
        ),
        (
            "default_user = $(default_user)",
            "rabbitmq.conf line 1: default_user: refers to itself: default_user -> default_user",
        ),
    ],
)
def test_what_cannot_be_put_in_is_refused(text, problem):
    with pytest.raises(ConfigError) as refused:
        load(text)
    assert refused.value.problems[0] == problem


def test_a_circle_is_named_at_each_of_its_keys():
    with pytest.raises(ConfigError) as refused:
        load("default_user = $(default_vhost)\ndefault_vhost = $(default_user)")
    assert refused.value.problems[:2] == (
        "rabbitmq.conf line 1: default_user: refers to itself: default_user -> default_vhost -> "
        "default_user",
        "rabbitmq.conf line 2: default_vhost: refers to itself: default_vhost -> default_user -> "
        "default_vhost",
    )
