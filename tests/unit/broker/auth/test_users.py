"""Users, and their passwords."""

import pytest

from leveret.broker.auth import passwords
from leveret.broker.auth.addresses import is_loopback
from leveret.broker.auth.identity import Identity
from leveret.broker.auth.passwords import SHA512, hash_password
from leveret.broker.auth.users import (
    UserDirectory,
    may_connect_from,
    with_hash,
    with_password,
)


@pytest.fixture
def users():
    return UserDirectory()


def add(users, *described, **named):
    user = with_password(*described, **named)
    users.put(user)
    return user


def test_a_user_logs_in_with_the_password(users):
    user = add(users, "anna", "secret", ["administrator"])
    assert users.authenticate("anna", "secret") is user
    assert users.get("anna") is user
    assert user.tags == ("administrator",)


@pytest.mark.parametrize(
    ("name", "password"), [("anna", "wrong"), ("anna", ""), ("bert", "secret"), ("", "")]
)
def test_no_one_else_does(users, name, password):
    add(users, "anna", "secret")
    assert users.authenticate(name, password) is None


@pytest.mark.parametrize("password", [None, ""])
def test_a_user_without_a_password_does_not_log_in_with_one(users, password):
    add(users, "anna", password)
    assert users.authenticate("anna", "") is None


def test_adding_again_replaces(users):
    add(users, "anna", "old", ["monitoring"])
    add(users, "anna", "new")
    assert users.authenticate("anna", "old") is None
    assert users.authenticate("anna", "new").tags == ()
    assert [user.name for user in users] == ["anna"]


def test_a_deleted_user_is_gone(users):
    add(users, "anna", "secret")
    users.remove("anna")
    users.remove("anna")
    assert users.get("anna") is None
    assert users.authenticate("anna", "secret") is None


def test_a_users_hash_is_not_shown(users):
    user = add(users, "anna", "secret")
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


def test_tags_change_for_the_next_login(users):
    before = add(users, "anna", "secret", ["monitoring"])
    add(users, "anna", "secret", ["administrator", "impersonator"])
    assert users.authenticate("anna", "secret").tags == ("administrator", "impersonator")
    assert before.tags == ("monitoring",)


def test_hashes_of_another_algorithm_are_known(users):
    users.put(with_hash("anna", hash_password("secret", SHA512), SHA512))
    assert users.authenticate("anna", "secret").tags == ()


def test_a_hash_that_matches_no_password_is_refused():
    with pytest.raises(ValueError, match=r"^the password of user 'anna' is hashed with md5; known"):
        with_hash("anna", b"\1\2\3\4hash", "md5")


def test_users_can_be_deleted_while_they_are_listed(users):
    for name in ("anna", "bert", "carl"):
        add(users, name, None)
    for user in users:
        users.remove(user.name)
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
def test_the_time_does_not_tell_which_users_exist(monkeypatch, name):
    """Hashing a long password takes time, so it is hashed for unknown users, too."""
    hashed = []
    monkeypatch.setattr(passwords, "_digest", lambda *what: hashed.append(what) or b"")
    users = UserDirectory()
    users.put(with_hash("anna", bytes(36)))
    users.put(with_hash("without", b""))
    assert users.authenticate(name, "x" * 100_000) is None
    assert len(hashed) == 1
