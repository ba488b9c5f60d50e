"""What Leveret's own plugins contribute: each place is right, and is imported where it is used."""

import subprocess
import sys

import pytest

from leveret.broker.auth.backends import chain
from leveret.broker.config import Config
from leveret.broker.exchanges import EXCHANGE_TYPES
from leveret.broker.plugins.contributions import loaded
from leveret.broker.plugins.extensions import contribute
from leveret.broker.plugins.own_plugins import BUILT_IN, contributed
from leveret.broker.runtime.node_address import read_node_address
from leveret.cluster.discovery import backends
from tests.patience import PATIENCE_SECONDS

FIELDS = ("exchange_types", "auth_backends", "peer_discovery")
PLACES = [place for field in FIELDS for place in contributed(field).values()]
START = "import sys; import leveret.broker.node.broker; print(*sys.modules)"


@pytest.mark.parametrize("place", PLACES)
def test_a_place_is_right(place):
    assert callable(loaded(place))


def test_the_tables_of_a_node_have_them():
    assert set(contributed("exchange_types")) < set(EXCHANGE_TYPES)
    assert set(contributed("auth_backends")) == set(chain.MAKERS.own_names)
    assert set(contributed("peer_discovery")) < set(backends.MAKERS.own_names)
    own = read_node_address("n@localhost")
    assert backends.MAKERS["consul"](Config(), own).name == "consul"


def test_no_package_can_take_a_name():
    with pytest.raises(ValueError, match="'x-random' of leveret.exchange_types is defined by"):
        contribute("leveret.exchange_types", "x-random", object(), "other")


def test_only_what_is_used_is_imported():
    output = subprocess.run(
        [sys.executable, "-c", START],
        capture_output=True, text=True, check=True, timeout=PATIENCE_SECONDS,
    ).stdout.split()  # fmt: skip
    unused = ("exchanges.modulus_hash", "exchanges.random_choice", "auth.backends.ldap")
    assert not [name for name in output if name.endswith(unused)]


def test_plugins_name_what_they_contribute():
    plugin = BUILT_IN["rabbitmq_random_exchange"]
    assert list(plugin.exchange_types) == ["x-random"]
