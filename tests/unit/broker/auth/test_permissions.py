"""Permission checks."""

import re

import pytest

from leveret.broker.amqp.errors import ChannelFault
from leveret.broker.auth.access_control import AccessControl
from leveret.broker.auth.backends.internal import InternalBackend
from leveret.broker.auth.identity import Identity
from leveret.broker.auth.permissions import RESULTS_MAX, PermissionTable, check_patterns
from leveret.broker.auth.users import UserDirectory
from leveret.broker.config import Config
from leveret.broker.declarations.values import Permission, TopicPermission
from leveret.broker.runtime.pending import begin
from leveret.broker.runtime.virtual_clock import VirtualClock


def table(configure="", write="", read=""):
    """Permissions of anna in the vhost /."""
    permissions = PermissionTable()
    permissions.put(Permission("/", "anna", configure, write, read))
    return permissions


def control(permissions):
    """Return the access control with these permissions."""
    backend = InternalBackend(UserDirectory(), permissions)
    return backend, AccessControl(Config(), VirtualClock(), backend, None)


def at_once(check):
    """Execute a check that completes without waiting."""
    assert begin(check) is None


def check(permissions, user, *what):
    backend, access = control(permissions)
    at_once(access.check(Identity(user, authorization=backend), *what))


def check_topic(permissions, user, *what):
    backend, access = control(permissions)
    at_once(access.check_topic(Identity(user, authorization=backend), *what))


def may(permissions, permission, name, kind="queue", user="anna", vhost="/"):
    """Tell whether the check permits the operation."""
    try:
        check(permissions, user, vhost, kind, name, permission)
    except ChannelFault as fault:
        return fault.reply_code != 403
    return True


def test_each_permission_has_its_pattern():
    permissions = table(configure="^mine-", write=".*", read="^a$|^b$")
    assert may(permissions, "configure", "mine-1")
    assert not may(permissions, "configure", "not-mine-1")
    assert may(permissions, "write", "anything")
    assert may(permissions, "read", "b")
    assert not may(permissions, "read", "ab")


def test_a_pattern_matches_anywhere_in_the_name():
    assert may(table(read="log"), "read", "the-logs")


def test_an_empty_pattern_is_for_the_empty_name_only():
    permissions = table()
    assert may(permissions, "read", "")
    assert not may(permissions, "read", "q")


def test_the_default_exchange_has_a_name_for_this():
    assert may(table(write=r"^amq\.default$"), "write", "", kind="exchange")
    assert not may(table(), "write", "", kind="exchange")
    assert not may(table(write=r"^amq\.default$"), "write", "", kind="queue")


def test_others_and_elsewhere_nothing_is_permitted():
    permissions = table(".*", ".*", ".*")
    assert not may(permissions, "read", "q", user="bert")
    assert not may(permissions, "read", "q", vhost="other")
    assert permissions.has_vhost_access("anna", "/")
    assert not permissions.has_vhost_access("anna", "other")
    assert not permissions.has_vhost_access("bert", "/")


def test_the_text_is_rabbitmqs():
    with pytest.raises(ChannelFault) as caught:
        check(table(), "anna", "/", "queue", "q", "configure")
    assert caught.value.reply_text == (
        "ACCESS_REFUSED - configure access to queue 'q' in vhost '/' refused for user 'anna'"
    )
    with pytest.raises(ChannelFault) as caught:
        check(table(), "anna", "/", "exchange", "", "write")
    assert "to exchange 'amq.default' in vhost '/'" in caught.value.reply_text


def test_a_change_counts_at_once():
    permissions = table(read=".*")
    assert may(permissions, "read", "q")
    permissions.put(Permission("/", "anna", "", "", ""))
    assert not may(permissions, "read", "q")
    permissions.put(Permission("/", "anna", "", "", "q"))
    assert may(permissions, "read", "q")
    permissions.remove("/", "anna")
    assert not may(permissions, "read", "q")
    assert not permissions.has_vhost_access("anna", "/")


@pytest.mark.parametrize(
    "permission",
    [
        Permission("/", "anna", "(", "", ""),
        Permission("/", "anna", "", "(", ""),
        Permission("/", "anna", "", "", "("),
        TopicPermission("/", "anna", "e", "(", ""),
        TopicPermission("/", "anna", "e", "", "("),
    ],
)
def test_a_bad_pattern_is_found(permission):
    with pytest.raises(re.error):
        check_patterns(permission)


def test_very_many_names_are_checked_rightly():
    permissions = table(read="7$")
    for number in range(RESULTS_MAX + 10):
        assert may(permissions, "read", str(number)) is str(number).endswith("7")
    assert may(permissions, "read", "7")


def test_topics_are_free_until_they_are_limited():
    permissions = table()
    check_topic(permissions, "anna", "/", "e", "any.key", "write")
    permissions.put_topic(TopicPermission("/", "anna", "e", "^{username}-{vhost}", "^ok$"))
    check_topic(permissions, "anna", "/", "e", "anna-/.key", "write")
    check_topic(permissions, "anna", "/", "e", "ok", "read")
    check_topic(permissions, "anna", "/", "other", "any.key", "write")
    with pytest.raises(ChannelFault) as caught:
        check_topic(permissions, "anna", "/", "e", "any.key", "write")
    assert caught.value.reply_text == (
        "ACCESS_REFUSED - write access to topic 'any.key' in exchange 'e' in vhost '/' "
        "refused for user 'anna'"
    )


def test_limits_on_topics_are_lifted_one_by_one_or_together():
    permissions = table("e", "k", "k")
    for exchange in ("e", "f", "g"):
        permissions.put_topic(TopicPermission("/", "anna", exchange, "k", "k"))
    permissions.remove_topic("/", "anna", "f")
    assert [row.exchange for row in permissions.topics] == ["e", "g"]
    check_topic(permissions, "anna", "/", "f", "x", "write")
    permissions.remove_topic("/", "anna", None)
    assert permissions.topics == []
    assert permissions.all == [Permission("/", "anna", "e", "k", "k")]


def test_nothing_is_left_of_a_deleted_user_or_vhost():
    permissions = PermissionTable()
    for vhost in ("/", "other"):
        for user in ("anna", "bert"):
            permissions.put(Permission(vhost, user, ".*", ".*", ".*"))
            permissions.put_topic(TopicPermission(vhost, user, "e", "", ""))
    assert may(permissions, "read", "q")
    permissions.remove_user("anna")
    assert not may(permissions, "read", "q")
    assert {(row.vhost, row.user) for row in permissions.all} == {("/", "bert"), ("other", "bert")}
    permissions.remove_vhost("/")
    assert [row.vhost for row in permissions.all] == ["other"]
    assert [row.vhost for row in permissions.topics] == ["other"]


# Patterns: the expected results are those of Erlang's re:run


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("^..$", "é", True),  # a dot is one byte
        ("^.$", "é", False),
        ("^.$", "\udcff", True),
        ("a$", "a\n", True),
        (r"a\z", "a\n", False),
        (r"a\Z", "a\n", True),
        (r"a\\z", r"a\z", True),
        ("^[[:alnum:]_]+$", "orders_7", True),
        ("^[[:alnum:]]+$", "orders_7", False),
        ("^[^[:space:]]+$", "no space", False),
        ("^[[:^digit:]]+$", "abc", True),
        ("^[[:^digit:]]+$", "ab1", False),
        ("[[:punct:]]", "a-b", True),
        ("^[]a]$", "]", True),
        (r"\[[:x]", "[:", True),
        ("^(?<part>a)", "abc", True),
        ("(?<!x)a", "xa", False),
        ("^(?!amq\\.)", "amq.topic", False),
        ("(?i)ORDERS", "orders", True),
        ("a++b", "aab", True),
        ("^{username}", "{username}", True),
    ],
)
def test_patterns_are_erlangs(pattern, name, matches):
    assert may(table(read=pattern), "read", name) is matches


@pytest.mark.parametrize("pattern", ["(", "*", "[a", "[[:colour:]]", "a)", "\\"])
def test_an_invalid_pattern_is_refused(pattern):
    with pytest.raises(re.error):
        check_patterns(Permission("/", "anna", "", "", pattern))


def test_a_user_name_that_spoils_a_pattern_is_refused_everything():
    permissions = table()
    permissions.put_topic(TopicPermission("/", "a(b", "e", "^{username}", "^fixed"))
    with pytest.raises(ChannelFault, match="refused for user"):
        check_topic(permissions, "a(b", "/", "e", "a(b.key", "write")
    check_topic(permissions, "a(b", "/", "e", "fixed", "read")


def test_an_empty_pattern_for_topics_is_for_the_empty_routing_key():
    permissions = table()
    permissions.put_topic(TopicPermission("/", "anna", "e", "", ""))
    check_topic(permissions, "anna", "/", "e", "", "write")
    with pytest.raises(ChannelFault):
        check_topic(permissions, "anna", "/", "e", "key", "write")
