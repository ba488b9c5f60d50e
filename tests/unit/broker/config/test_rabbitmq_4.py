"""Sizes, keys and TLS versions in which RabbitMQ's versions differ."""

import re

import pytest

from leveret.broker.config import ConfigError, IgnoredSetting
from leveret.broker.config.known_settings import OWN
from leveret.broker.config.parser import words_of
from leveret.broker.config.rabbitmq_4_keys import RABBITMQ_4_KEYS, REFUSED_KEYS
from leveret.broker.config.value_kinds import UNLIMITED
from tests.rabbitmq_conf import load


@pytest.fixture(autouse=True)
def in_empty_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def problem_of(text):
    with pytest.raises(ConfigError) as refused:
        load(text)
    return str(refused.value)


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("2TB", 2 * 10**12), ("2tb", 2 * 10**12), ("1PB", 10**15), ("1Pb", 10**15),
        ("1Ki", 1024), ("1Mi", 1024**2), ("1gi", 1024**3), ("1Ti", 1024**4), ("1Pi", 1024**5),
        ("3TiB", 3 * 1024**4), ("3PIB", 3 * 1024**5),
    ],
)  # fmt: skip
@pytest.mark.parametrize("compat", ["3.12", "4.x"])
def test_a_unit_means_the_same_in_all_versions(compat, text, amount):
    config = load(f"compat = {compat}\ndisk_free_limit.absolute = {text}\n"
                  f"vm_memory_high_watermark.absolute = {text}")  # fmt: skip
    assert config.disk.free_limit_bytes == config.memory.high_watermark_bytes == amount


@pytest.mark.parametrize(("power", "letter"), [*enumerate("KMGTP", 1), *enumerate("kmgtp", 1)])
def test_a_letter_alone_is_what_it_is_in_that_version(power, letter):
    line = f"disk_free_limit.absolute = 2{letter}"
    assert load(line).disk.free_limit_bytes == 2 * 1024**power
    assert load(f"{line}\ncompat = 4.x").disk.free_limit_bytes == 2 * 1000**power
    in_environment = load(f"{line}\ncompat = 3.12", {"LEVERET_COMPAT": "4.x"})
    assert in_environment.disk.free_limit_bytes == 2 * 1000**power


def test_a_letter_in_a_variable_and_with_an_alternative():
    sizes = {"LEVERET_TRACING_LOG_MAX_TOTAL_SIZE": "5G", "LEVERET_COMPAT": "4.x"}
    assert load("", sizes).tracing.bytes_max == 5 * 10**9


def test_a_frame_has_powers_of_two_in_all_versions():
    assert load("frame_max = 128KB\ncompat = 4.x").frame_max_bytes == 131_072


def test_the_keys_of_rabbitmq_4_are_known_with_compat():
    lines = "compat = 4.x\ncluster_formation.registration.enabled = false\nnode_tags.zone = a"
    assert load(lines).settings_without_effect == (
        IgnoredSetting("cluster_formation.registration.enabled", "rabbitmq.conf line 2"),
        IgnoredSetting("node_tags.zone", "rabbitmq.conf line 3"),
    )


def test_without_it_the_problem_says_so():
    assert problem_of("cluster_formation.registration.enabled = false") == (
        "rabbitmq.conf line 1: 'cluster_formation.registration.enabled' is a key of RabbitMQ 4, "
        "which has no effect here; it is ignored with compat = 4.x"
    )


@pytest.mark.parametrize("key", [re.sub(r"\$\w+", "1", key) for key in REFUSED_KEYS])
@pytest.mark.parametrize("compat", ["3.12", "4.x"])
def test_a_key_that_limits_access_is_never_ignored(compat, key):
    assert f"the key '{key}' of RabbitMQ 4 limits who has access" in problem_of(
        f"compat = {compat}\n{key} = true"
    )


def test_a_key_of_rabbitmq_4_is_of_no_earlier_version():
    assert [key for key in RABBITMQ_4_KEYS + REFUSED_KEYS if OWN.keys.find(words_of(key))] == []


def test_a_value_in_three_quotes_has_several_lines():
    config = load("auth_ldap.queries.vhost_access = '''\n  {in_group,\n   \"cn=a # b\"}.\n'''\n"
                  "auth_ldap.queries.resource_access = '''{constant, true}''' # all\n"
                  "heartbeat = 5")  # fmt: skip
    assert config.ldap.vhost_query == '{in_group,\n   "cn=a # b"}.'
    assert config.ldap.resource_query == "{constant, true}"
    assert config.heartbeat_s == 5


def test_a_value_in_three_quotes_that_does_not_end_or_goes_on_is_named():
    key = "auth_ldap.queries.vhost_access"
    assert problem_of(f"{key} = '''a\nb") == (
        f"rabbitmq.conf line 1: {key} has no ''' after its value"
    )
    assert "has text after the ''' that end its value" in problem_of(f"{key} = '''a\n''' b")


def test_a_new_node_may_ask_for_the_others_without_a_limit():
    config = load("cluster_formation.discovery_retry_limit = unlimited")
    assert config.cluster_formation.discovery_retry_limit == UNLIMITED


def test_new_names_of_settings_are_taken():
    config = load("max_connections = 10\nmax_channels_per_connection = 5\n"
                  "auth_ldap.queries.vhost_access = {constant, false}")  # fmt: skip
    assert (config.connection_max, config.channel_max) == (10, 5)
    assert config.ldap.vhost_query == "{constant, false}"


@pytest.mark.parametrize(
    ("key", "meant"),
    [
        ("max_channels", "channel_max"), ("max_frame", "frame_max"),
        ("vhost_default", "default_vhost"), ("users_default", "default_user"),
        ("disk_free_absolute_limit", "disk_free_limit.absolute"),
        ("log.levels.console", "log.console.level"), ("heartbeats", "heartbeat"),
    ],
)  # fmt: skip
def test_the_nearest_key_is_one_with_the_same_words(key, meant):
    assert f"unknown key '{key}'; did you mean '{meant}'?" in problem_of(f"{key} = 1")


@pytest.mark.parametrize("prefix", ["ssl_options", "management.ssl", "prometheus.ssl"])
def test_old_tls_versions_beside_others_are_left_out(prefix):
    config = load(f"{prefix}.versions.1 = tlsv1.2\n{prefix}.versions.2 = tlsv1.1\n"
                  f"{prefix}.versions.3 = tlsv1")  # fmt: skip
    assert [(ignored.key, ignored.reason) for ignored in config.settings_without_effect] == [
        (f"{prefix}.versions.{number}",
         "has no effect: this TLS version is not secure and is not offered")
        for number in (2, 3)
    ]  # fmt: skip
    sections = (config.tls.options, config.management.tls, config.prometheus.tls)
    assert ("tlsv1.2",) in [section.versions for section in sections]


@pytest.mark.parametrize("prefix", ["SSL_OPTIONS", "MANAGEMENT_SSL", "PROMETHEUS_SSL"])
def test_old_tls_versions_beside_others_are_left_out_of_a_variable(prefix):
    variable = f"LEVERET_{prefix}_VERSIONS"
    config = load("", {variable: "tlsv1.1, tlsv1.2,tlsv1"})
    reason = "has no effect: this TLS version is not secure and is not offered"
    assert config.settings_without_effect == tuple(
        IgnoredSetting(version, f"environment variable {variable}", reason)
        for version in ("tlsv1.1", "tlsv1")
    )
    sections = (config.tls.options, config.management.tls, config.prometheus.tls)
    assert ("tlsv1.2",) in [section.versions for section in sections]


def test_old_tls_versions_alone_in_a_variable_are_refused():
    with pytest.raises(ConfigError, match="VERSIONS = 'tlsv1,tlsv1.1': expected one of tlsv1.2"):
        load("", {"LEVERET_SSL_OPTIONS_VERSIONS": "tlsv1,tlsv1.1"})


def test_a_comma_in_brackets_or_quotes_of_a_variable_belongs_to_a_value():
    query = '{in_group, "cn=ops,dc=example"}'
    variable = OWN.by_key["auth_ldap.tag_queries.$tag"].variable
    tags = load("", {variable: f"administrator={query}, monitoring={{constant, true}}"})
    assert tags.ldap.tag_queries == (("administrator", query), ("monitoring", "{constant, true}"))


def test_old_tls_versions_alone_are_refused():
    assert "ssl_options.versions.1 = 'tlsv1.1': expected one of tlsv1.2, tlsv1.3" in problem_of(
        "ssl_options.versions.1 = tlsv1.1\nmanagement.ssl.versions.1 = tlsv1.2"
    )
