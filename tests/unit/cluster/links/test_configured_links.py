"""The links of a node as its settings say."""

import pytest

from leveret.broker.config import (
    ClusterSettings,
    Config,
    ConfigError,
    LinkTlsOptions,
    SettingError,
    load_config,
)
from leveret.broker.runtime.node_address import read_node_address
from leveret.cluster.links.configured_links import make_links, port_of
from leveret.cluster.links.cookie import COOKIE_FILE
from tests.ports import free_ports
from tests.unit.cluster.links.fakes import system_clock, until

TESTS_COOKIE = "the cookie of this test"


def links_of(directory, name="a@127.0.0.1", **settings):
    directory.mkdir(exist_ok=True)
    settings = {"cookie": TESTS_COOKIE} | settings
    config = Config(node_name=name, cluster=ClusterSettings(**settings))
    return make_links(config, directory, system_clock(), features=frozenset({"one"}))


async def test_nodes_that_are_configured_alike_are_linked(tmp_path):
    first, second = free_ports(2)
    a = links_of(tmp_path / "a", port=first)
    b = links_of(tmp_path / "b", "b@127.0.0.1", port=second)
    await a.start()
    await b.start()
    assert (a.port, b.port) == (first, second)
    a.dial(read_node_address(f"b@127.0.0.1:{second}"))
    await until(lambda: a.peers and b.peers)
    assert b.peers[a.node].features == {"one"}
    await a.stop()
    await b.stop()


async def test_port_0_is_no_links(tmp_path):
    assert links_of(tmp_path, port=0) is None
    assert list(tmp_path.iterdir()) == []


async def test_the_port_is_taken(tmp_path):
    (port,) = free_ports(1)
    a, b = links_of(tmp_path / "a", port=port), links_of(tmp_path / "b", "b@127.0.0.1", port=port)
    await a.start()
    with pytest.raises(SettingError, match="Address already in use; choose another port") as caught:
        await b.start()
    assert caught.value.attribute == "cluster.port"
    await b.stop()
    await a.stop()


async def test_the_host_of_the_name_is_not_known(tmp_path):
    links = links_of(tmp_path, "a@no-such-host.invalid")
    with pytest.raises(SettingError, match="the host no-such-host.invalid of this node's name has"):
        await links.start()
    await links.stop()


async def test_an_interface_may_be_named(tmp_path):
    (port,) = free_ports(1)
    links = links_of(tmp_path, "a@no-such-host.invalid", bind="127.0.0.1", port=port)
    await links.start()
    assert links.port == port
    await links.stop()


async def test_a_name_that_cannot_be_dialled(tmp_path):
    with pytest.raises(SettingError, match=r"an IPv6 address as the host in brackets"):
        links_of(tmp_path, "a@::1")


async def test_a_method_of_compression_that_is_not_installed(tmp_path, monkeypatch):
    monkeypatch.setattr("leveret.cluster.links.compression.PACKAGES", {"zstd": "not_there"})
    monkeypatch.setattr("leveret.cluster.links.configured_links.PACKAGES", {"zstd": "not_there"})
    with pytest.raises(SettingError, match=r"pip install 'leveret\[compression\]'"):
        links_of(tmp_path, compression="zstd")


async def test_tls_is_used_when_there_is_a_certificate(tmp_path):
    with pytest.raises(SettingError, match="links with TLS need authorities"):
        links_of(tmp_path, tls=LinkTlsOptions(certfile=tmp_path / "node.pem"))


async def test_a_cookie_is_made_in_the_data_directory(tmp_path):
    assert links_of(tmp_path, cookie="") is not None
    assert (tmp_path / COOKIE_FILE).exists()


# Settings


def test_settings_come_from_flags_variables_and_the_file(tmp_path):
    file = tmp_path / "leveret.conf"
    file.write_text(
        "cluster.port = 25680\nnet_ticktime = 30\ndistribution_buffer_size = 32MB\n"
        "cluster.tls.certfile = node.pem\ncluster.cookie_file = the.cookie\n"
        "cluster.compression = lz4\n"
    )
    cluster = load_config(file, {"LEVERET_COOKIE": "secret"}, {"cluster_port": 25690}).cluster
    assert (cluster.port, cluster.tick_time_s) == (25690, 30)
    assert cluster.send_buffer_bytes == 32_000_000
    assert (cluster.cookie, cluster.compression) == ("secret", "lz4")
    assert str(cluster.tls.certfile) == "node.pem"
    assert "secret" not in repr(cluster)
    assert load_config(file, {"LEVERET_CLUSTER_PORT": "0"}, {}).cluster.port == 0


def test_defaults_are_those_of_rabbitmq():
    cluster = load_config(None, {}, {}).cluster
    assert cluster.tick_time_s == 60
    assert cluster.send_buffer_bytes == 128_000 * 1024
    assert cluster.tls.certfile is None


@pytest.mark.parametrize(
    ("flags", "port"),
    [
        ({}, 25672),
        ({"port": "5673"}, 25673),
        ({"port": "0"}, 25672),
        ({"port": "60000"}, 25672),
        ({"port": "5673", "cluster_port": "7000"}, 7000),
        ({"port": "5673", "cluster_port": "0"}, 0),
    ],
)
def test_the_port_follows_the_one_for_amqp(flags, port):
    assert port_of(load_config(None, {}, flags)) == port


def test_bind_is_for_links_too():
    assert load_config(None, {}, {"bind": "10.0.0.1"}).cluster.bind == "10.0.0.1"
    environment = {"LEVERET_CLUSTER_IP": "10.0.0.2"}
    assert load_config(None, environment, {}).cluster.bind == "10.0.0.2"


@pytest.mark.parametrize(
    ("key", "value"),
    [("net_ticktime", "0"), ("cluster.compression", "gzip"), ("cluster.port", "70000"),
     ("distribution_buffer_size", "1")],
)  # fmt: skip
def test_invalid_values_are_refused(tmp_path, key, value):
    file = tmp_path / "leveret.conf"
    file.write_text(f"{key} = {value}\n")
    with pytest.raises(ConfigError, match=f"{key} = '{value}': expected"):
        load_config(file, {}, {})
