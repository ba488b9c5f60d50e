"""Users, in memory and in the metadata."""

import pytest

from broker.auth import passwords
from broker.auth.identity import Identity
from broker.auth.passwords import SHA256, SHA512, hash_password
from broker.auth.users import NoSuchUser, UserDirectory, is_loopback, may_connect_from
from storage.metadata import MetadataError, NoMetadata
from storage.metadata_rows import UserRow


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


def test_a_password_can_be_changed_and_taken_away(users):
    users.add("anna", "old", ["monitoring"])
    users.change_password("anna", "new")
    assert users.authenticate("anna", "old") is None
    assert users.authenticate("anna", "new").tags == ("monitoring",)
    users.change_password("anna", None)
    assert users.authenticate("anna", "new") is None
    assert users.authenticate("anna", "") is None


def test_a_changed_password_has_the_usual_hash(users):
    users.add_with_hash("anna", hash_password("old", SHA512), SHA512)
    assert users.change_password("anna", "new").hashing_algorithm == SHA256
    assert users.authenticate("anna", "new")


def test_tags_change_for_the_next_login(users):
    before = users.add("anna", "secret", ["monitoring"])
    users.set_tags("anna", ["administrator", "impersonator"])
    assert users.authenticate("anna", "secret").tags == ("administrator", "impersonator")
    assert before.tags == ("monitoring",)


def test_only_users_that_exist_can_be_changed(users):
    with pytest.raises(NoSuchUser, match=r"^user 'nobody' does not exist$"):
        users.change_password("nobody", "secret")
    with pytest.raises(NoSuchUser):
        users.set_tags("nobody", ["administrator"])
    assert len(users) == 0


def test_changes_are_kept():
    metadata = FakeMetadata()
    users = UserDirectory(metadata)
    users.add_with_hash("anna", hash_password("old", SHA512), SHA512, ["management"])
    assert metadata.rows["anna"].hashing_algorithm == SHA512
    users.change_password("anna", "new")
    users.set_tags("anna", ["administrator"])
    restored = UserDirectory(metadata)
    restored.restore(metadata.rows.values())
    assert restored.authenticate("anna", "new").tags == ("administrator",)


def test_a_hash_that_nobody_could_log_in_with_is_refused(users):
    with pytest.raises(ValueError, match=r"^the password of user 'anna' is hashed with md5; known"):
        users.add_with_hash("anna", b"\1\2\3\4hash", "md5")
    assert users.get("anna") is None


def test_nothing_changes_that_could_not_be_kept():
    class FullDisk(FakeMetadata):
        def put_user(self, row):
            raise MetadataError

        delete_user = put_user

    users = UserDirectory(FullDisk())
    users.restore([UserRow("anna", hash_password("secret"), SHA256, "")])
    with pytest.raises(MetadataError):
        users.add("bert", "secret")
    with pytest.raises(MetadataError):
        users.change_password("anna", "new")
    with pytest.raises(MetadataError):
        users.delete("anna")
    assert [user.name for user in users] == ["anna"]
    assert users.authenticate("anna", "secret")


def test_users_can_be_deleted_while_they_are_listed(users):
    for name in ("anna", "bert", "carl"):
        users.add(name, None)
    for user in users:
        users.delete(user.name)
    assert len(users) == 0


@pytest.mark.parametrize(
    ("tag", "is_administrator", "is_monitor", "is_policymaker", "may_use_management"),
    [
        ("administrator", True, True, True, True),
        ("monitoring", False, True, False, True),
        ("policymaker", False, False, True, True),
        ("management", False, False, False, True),
        ("impersonator", False, False, False, False),
    ],
)
def test_what_a_tag_permits(tag, is_administrator, is_monitor, is_policymaker, may_use_management):
    user = Identity("anna", ("other", tag))
    assert user.is_administrator is is_administrator
    assert user.is_monitor is is_monitor
    assert user.is_policymaker is is_policymaker
    assert user.may_use_management is may_use_management


@pytest.mark.parametrize("name", ["anna", "without", "nobody"])
def test_the_time_does_not_tell_who_is_there(monkeypatch, name):
    """To hash a long password takes a while, and so it is hashed for everybody."""
    hashed = []
    monkeypatch.setattr(passwords, "_digest", lambda *what: hashed.append(what) or b"")
    users = UserDirectory(NoMetadata())
    users.add_with_hash("anna", bytes(36))
    users.add_with_hash("without", b"")
    assert users.authenticate(name, "x" * 100_000) is None
    assert len(hashed) == 1
