"""An LDAP server for the tests of a file."""

import pytest

from tests.feature.slapd import LdapBackends, Slapd


@pytest.fixture(scope="module")
def slapd(tmp_path_factory):
    slapd = Slapd(tmp_path_factory.mktemp("slapd"))
    slapd.start()
    yield slapd
    slapd.stop()


@pytest.fixture
async def make(slapd, tmp_path):
    """Creates backends that query the directory, which are closed after the test."""
    backends = LdapBackends(slapd, tmp_path)
    yield backends.make
    await backends.close()
