"""A real LDAP server for tests: OpenLDAP's slapd with some users and groups."""

import shutil
import socket
import subprocess
import time
from itertools import chain

import pytest

from leveret.broker.auth.backends.ldap import LdapBackend
from leveret.broker.auth.identity import LoginAttempt
from leveret.broker.config import load_config
from leveret.broker.runtime.virtual_clock import VirtualClock
from tests.feature.certificate_authority import CertificateAuthority
from tests.patience import PATIENCE_SECONDS
from tests.ports import free_port

PATH = "/usr/sbin:/usr/local/sbin:/usr/libexec"
SLAPD, SLAPADD = (
    shutil.which(name) or shutil.which(name, path=PATH) for name in ("slapd", "slapadd")
)

NEEDS_SLAPD = pytest.mark.skipif(
    SLAPD is None or SLAPADD is None, reason="slapd, the LDAP server of OpenLDAP, is not installed"
)

BASE = "dc=example,dc=com"
PEOPLE, GROUPS, HIDDEN = f"ou=people,{BASE}", f"ou=groups,{BASE}", f"ou=hidden,{BASE}"
NODE = f"cn=node,{BASE}"

CONFIGURATION = """
include /etc/ldap/schema/core.schema
include /etc/ldap/schema/cosine.schema
include /etc/ldap/schema/inetorgperson.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile {directory}/pid
TLSCACertificateFile {cacertfile}
TLSCertificateFile {certfile}
TLSCertificateKeyFile {keyfile}
database mdb
maxsize 10485760
suffix "dc=example,dc=com"
rootdn "cn=admin,dc=example,dc=com"
rootpw adminpw
directory {directory}/db
access to attrs=userPassword by anonymous auth by * none
access to dn.subtree="ou=hidden,dc=example,dc=com" by dn.exact="cn=node,dc=example,dc=com" read
access to * by * read
"""


def unit(name):
    return [f"dn: ou={name},{BASE}", "objectClass: organizationalUnit", f"ou: {name}", ""]


def person(name, mail, *more, password="secret"):
    return [
        f"dn: uid={name},{PEOPLE}", "objectClass: inetOrgPerson", f"uid: {name}", f"cn: {name}",
        "sn: x", f"mail: {mail}", f"userPassword: {password}", *more, "",
    ]  # fmt: skip


def group(dn, name, *members):
    return [f"dn: {dn}", "objectClass: groupOfNames", f"cn: {name}",
            *(f"member: {member}" for member in members), ""]  # fmt: skip


ENTRIES = [
    f"dn: {BASE}", "objectClass: dcObject", "objectClass: organization", "o: x", "dc: example", "",
    *chain(*map(unit, ("people", "groups", "hidden"))),
    f"dn: {NODE}", "objectClass: organizationalRole", "objectClass: simpleSecurityObject",
    "cn: node", "userPassword: nodepw", "",
    *person("anna", "anna@example.com", "description: burrow", "description: field"),
    *person("bert", "shared@example.com"),
    *person("carl", "shared@example.com"),
    *person("jürgen", "j@example.com", password="geheim ü ﬁ"),
    *group(f"cn=admins,{GROUPS}", "admins", f"uid=anna,{PEOPLE}"),
    *group(f"cn=a\\2Cb,{GROUPS}", "a,b", f"uid=bert,{PEOPLE}"),
    *group(f"cn=all,{GROUPS}", "all", f"cn=admins,{GROUPS}", f"cn=ring,{GROUPS}"),
    *group(f"cn=ring,{GROUPS}", "ring", f"cn=all,{GROUPS}"),
    *group(f"cn=club,{HIDDEN}", "club", f"uid=anna,{PEOPLE}"),
]  # fmt: skip


class Slapd:
    """A directory with some users and groups. It can be stopped and restarted."""

    def __init__(self, directory):
        self.directory = directory
        self.port, self.tls_port = free_port(), free_port()
        authority = CertificateAuthority(directory)
        own = authority.issue("slapd", names=["127.0.0.1", "localhost"])
        self.cacertfile = authority.certfile
        (directory / "db").mkdir()
        self.configuration = directory / "slapd.conf"
        self.configuration.write_text(
            CONFIGURATION.format(
                directory=directory, cacertfile=authority.certfile, certfile=own.certfile,
                keyfile=own.keyfile,
            )
        )  # fmt: skip
        entries = directory / "entries.ldif"
        entries.write_text("\n".join(ENTRIES))
        subprocess.run(
            [SLAPADD, "-f", str(self.configuration), "-l", str(entries)],
            check=True, capture_output=True, timeout=PATIENCE_SECONDS,
        )  # fmt: skip
        self.process = None

    def start(self):
        addresses = f"ldap://127.0.0.1:{self.port} ldaps://127.0.0.1:{self.tls_port}"
        self.process = subprocess.Popen(
            [SLAPD, "-h", addresses, "-f", str(self.configuration), "-d", "0"],
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + PATIENCE_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                assert self.process.poll() is None, "slapd does not start"
                assert time.monotonic() < deadline, "slapd does not answer"
                time.sleep(0.02)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait(PATIENCE_SECONDS)


class LdapBackends:
    """Creates backends that query a directory."""

    def __init__(self, slapd, directory):
        self.slapd = slapd
        self.file = directory / "rabbitmq.conf"
        self.made = []

    def make(self, *settings, clock=None):
        """Create a backend. settings: without the prefix `auth_ldap.`; later ones override."""
        usual = ("servers.1 = 127.0.0.1", f"port = {self.slapd.port}",
                 f"user_dn_pattern = uid=${{username}},{PEOPLE}")  # fmt: skip
        self.file.write_text("".join(f"auth_ldap.{line}\n" for line in (*usual, *settings)))
        self.made.append(LdapBackend(load_config(self.file, {}, {}).ldap, clock or VirtualClock()))
        return self.made[-1]

    async def close(self):
        """Close the backends."""
        for backend in self.made:
            await backend.close()


async def log_in(backend, name="anna", password="secret"):
    """Return the identity of a user."""
    return await backend.authenticate(LoginAttempt(name, password, "127.0.0.1"))
