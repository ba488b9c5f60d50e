"""Declarations as values, and as bytes between nodes."""

import msgspec
import pytest

from leveret.broker.amqp.field_table import encode_table
from leveret.broker.declarations.values import (
    AnyDeclaration,
    ChangePlacement,
    DeleteBinding,
    DeleteTopicPermission,
    DeleteVhost,
    Policy,
    PutBinding,
    PutParameter,
    PutPlacement,
    PutPolicy,
    PutQueue,
    PutUser,
    PutVhost,
    PutVhostLimits,
    RequireParameter,
    User,
    decode,
    encode,
)
from leveret.broker.registry.objects import OBJECTS
from leveret.broker.registry.stored import write
from tests.declaring import Declared

NOT_UTF_8 = b"caf\xe9".decode("utf-8", "surrogateescape")
ARGUMENTS = encode_table({"x-max-length": ("s", 5), "x-dead-letter-exchange": ("S", NOT_UTF_8)})


@pytest.mark.parametrize(
    "declaration",
    [
        DeleteVhost("/", acting_user="anna"),
        PutUser(User("anna", ("administrator", "é"), b"\0\xff", "sha"), acting_user=NOT_UTF_8),
        DeleteTopicPermission("/", "anna", None),
        PutPolicy("policy", Policy("/", "p", "^", "all", {"max-length": 5, "expires": 1.5}, 0.5)),
        PutVhostLimits("/", {"max-queues": -1}),
        PutParameter("shovel", NOT_UTF_8, "s", {NOT_UTF_8: [None, True, {"deep": NOT_UTF_8}]}),
        PutQueue("/", NOT_UTF_8, True, False, ARGUMENTS, owner="1.2.3.4:5", storage_id=7),
        PutBinding("/", "e", NOT_UTF_8, "k", "exchange", ARGUMENTS),
        DeleteBinding("/", "e", "q", "k"),
    ],
)
def test_what_another_node_gets_is_what_was_sent(declaration):
    received = decode(encode(declaration))
    assert received == declaration
    assert type(received) is type(declaration)


TAGS_ON_DISK = {ChangePlacement: "ChangeQueueMirrors", PutPlacement: "PutQueueMirrors"}
"""Logs on disk have these names of types that are called otherwise."""


def test_every_declaration_can_be_received():
    for type_ in AnyDeclaration.__args__:
        assert type_.__struct_config__.tag == TAGS_ON_DISK.get(type_, type_.__name__)


def test_the_record_of_a_queue_has_its_name_on_disk():
    declared = PutQueue("/", "q", True, node="a", identity=7, record=b"x")
    assert b"\xa7mirrors\xc4\x01x" in encode(declared)


def test_every_declaration_is_about_one_kind_of_objects():
    types = [type_ for kind in OBJECTS for type_ in kind.types]
    assert sorted(types, key=repr) == sorted(AnyDeclaration.__args__, key=repr)


@pytest.mark.parametrize(
    "asked",
    [RequireParameter("global", "", "name", 1), ChangePlacement("/", "q", 0, b"change")],
)
def test_requests_are_neither_written_nor_applied(asked):
    declared = Declared()
    declared.put(PutVhost("/"), PutParameter("global", "", "name", 1))
    assert declared.registry.complete([asked]) == []
    with pytest.raises(AssertionError):
        write(asked, declared.metadata)
    with pytest.raises(AssertionError):
        declared.registry.apply(asked)


@pytest.mark.parametrize(
    "data",
    [
        b"", b"\xc1", msgspec.msgpack.encode({"declaration": "PutNothing"}),
        msgspec.msgpack.encode({"declaration": "DeleteVhost", "name": 5}),
    ],
)  # fmt: skip
def test_other_bytes_are_refused(data):
    with pytest.raises(ValueError):
        decode(data)


def test_a_declaration_does_not_change():
    with pytest.raises(AttributeError):
        PutQueue("/", "q").name = "other"


def test_the_hash_of_a_password_is_not_shown():
    assert "sesame" not in repr(PutUser(User("anna", (), b"sesame", "sha")))
