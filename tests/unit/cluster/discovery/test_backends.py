"""The backend that is configured, and mistakes of its settings."""

import pytest

from leveret.broker.config import SETTINGS, Config, ConfigError, SettingError, load_config
from leveret.broker.config.formation_settings import (
    INSTALLED_BACKENDS,
    EtcdSettings,
    FormationSettings,
)
from leveret.broker.runtime.node_address import NodeAddress
from leveret.cluster.discovery.backends import MAKERS, discovery_of
from tests.installed_package import install_in

OWN = NodeAddress("rabbit@one")


def made(**settings):
    return discovery_of(Config(cluster_formation=FormationSettings(**settings)), OWN)


async def test_the_default_is_the_list_of_the_configuration():
    nodes = (OWN, NodeAddress("rabbit@two", 25673))
    found = await made(nodes=nodes, node_type="ram").list_nodes()
    assert (found.nodes, found.node_type) == (nodes, "ram")


@pytest.mark.parametrize(
    ("backend", "settings", "has_registration", "has_lock"),
    [
        ("classic_config", {}, False, False),
        ("dns", {"dns_hostname": "nodes.example.org"}, False, False),
        ("consul", {}, True, True),
        ("etcd", {"etcd": EtcdSettings(endpoints=("localhost:2379",))}, True, True),
    ],
)
def test_each_backend_is_made_by_its_name(backend, settings, has_registration, has_lock):
    discovery = made(backend=backend, **settings)
    assert discovery.name == backend
    assert (discovery.registration is not None) is has_registration
    assert (discovery.lock is not None) is has_lock


@pytest.mark.parametrize(
    ("backend", "attribute"),
    [
        ("dns", "cluster_formation.dns_hostname"),
        ("etcd", "cluster_formation.etcd.endpoints"),
        ("kubernetes", "cluster_formation.kubernetes.cert_path"),
    ],
)
def test_a_setting_that_is_missing_is_named(backend, attribute):
    with pytest.raises(SettingError) as error:
        made(backend=backend)
    assert error.value.attribute == attribute
    assert attribute in {setting.attribute for setting in SETTINGS}


ALONE = """
class Alone:
    name, registration, lock = "alone", None, None

    def __init__(self, config, own):
        self.own = own
"""


def test_a_backend_of_an_installed_package(monkeypatch, tmp_path):
    variable = {"LEVERET_CLUSTER_FORMATION_PEER_DISCOVERY_BACKEND": "alone"}
    with pytest.raises(ConfigError, match="one of classic_config"):
        load_config(None, variable, {})
    install_in(monkeypatch, tmp_path, (MAKERS, INSTALLED_BACKENDS), "alone", ALONE, "Alone")
    discovery = discovery_of(load_config(None, variable, {}), OWN)
    assert (discovery.name, discovery.own) == ("alone", OWN)
