"""Users, in memory and in the metadata."""

import pytest

from broker.auth.passwords import SHA512, hash_password
from broker.auth.users import UserDirectory, is_loopback, may_connect_from
from storage.metadata import NoMetadata, UserRow


class FakeMetadata:
    """Users as they are kept."""

    def __init__(self):
        self.rows = {}

    def put_user(self, row):
        self.rows[row.name] = row

    def delete_user(self, name):
        del self.rows[name]


@pytest.fixture
def users():
    return UserDirectory(NoMetadata())


def test_a_user_logs_in_with_the_password(users):
    user = users.add("anna", "secret", ["administrator"])
    assert users.authenticate("anna", "secret") is user
    assert users.get("anna") is user
    assert user.tags == ("administrator",)


@pytest.mark.parametrize(
    ("name", "password"), [("anna", "wrong"), ("anna", ""), ("bert", "secret"), ("", "")]
)
def test_nobody_else_does(users, name, password):
    users.add("anna", "secret")
    assert users.authenticate(name, password) is None


@pytest.mark.parametrize("password", [None, ""])
def test_a_user_without_a_password_does_not_log_in_with_one(users, password):
    users.add("anna", password)
    assert users.get("anna").password_hash == b""
    assert users.authenticate("anna", "") is None


def test_adding_again_replaces(users):
    users.add("anna", "old", ["monitoring"])
    users.add("anna", "new")
    assert users.authenticate("anna", "old") is None
    assert users.authenticate("anna", "new").tags == ()
    assert [user.name for user in users] == ["anna"]


def test_a_deleted_user_is_gone(users):
    users.add("anna", "secret")
    users.delete("anna")
    users.delete("anna")
    assert users.get("anna") is None
    assert users.authenticate("anna", "secret") is None


def test_users_are_kept_and_come_back():
    metadata = FakeMetadata()
    users = UserDirectory(metadata)
    users.add("anna", "secret", ["administrator", "monitoring"])
    users.add("bert", "secret")
    users.delete("bert")
    (row,) = metadata.rows.values()
    assert row.tags == "administrator,monitoring"
    restored = UserDirectory(metadata)
    restored.restore(metadata.rows.values())
    assert restored.authenticate("anna", "secret").tags == ("administrator", "monitoring")


def test_hashes_of_another_algorithm_come_back(users):
    users.restore([UserRow("anna", hash_password("secret", SHA512), SHA512, "")])
    assert users.authenticate("anna", "secret").tags == ()


def test_a_users_hash_is_not_shown(users):
    user = users.add("anna", "secret")
    assert repr(user.password_hash) not in repr(user)


@pytest.mark.parametrize(
    ("host", "is_own"),
    [
        ("127.0.0.1", True), ("127.8.8.8", True), ("::1", True), ("::ffff:127.0.0.1", True),
        ("::1%lo", True), ("10.0.0.1", False), ("::ffff:10.0.0.1", False), ("fe80::1%eth0", False),
        ("localhost", False), ("", False),
    ],
)  # fmt: skip
def test_loopback_addresses(host, is_own):
    assert is_loopback(host) is is_own


def test_loopback_users_connect_from_the_machine_itself():
    assert may_connect_from("127.0.0.1", "guest", ["guest"])
    assert not may_connect_from("10.0.0.1", "guest", ["guest"])
    assert may_connect_from("10.0.0.1", "anna", ["guest"])
    assert may_connect_from("10.0.0.1", "guest", [])
