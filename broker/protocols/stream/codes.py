"""The numbers of the stream protocol: keys of commands, codes of responses, types of offsets.

Source: the protocol's reference (rabbitmq_stream, docs/PROTOCOL.adoc) and rabbit_stream.hrl.
"""

from typing import Final

DECLARE_PUBLISHER: Final = 1
PUBLISH: Final = 2
PUBLISH_CONFIRM: Final = 3
PUBLISH_ERROR: Final = 4
QUERY_PUBLISHER_SEQUENCE: Final = 5
DELETE_PUBLISHER: Final = 6
SUBSCRIBE: Final = 7
DELIVER: Final = 8
CREDIT: Final = 9
STORE_OFFSET: Final = 10
QUERY_OFFSET: Final = 11
UNSUBSCRIBE: Final = 12
CREATE: Final = 13
DELETE: Final = 14
METADATA: Final = 15
METADATA_UPDATE: Final = 16
PEER_PROPERTIES: Final = 17
SASL_HANDSHAKE: Final = 18
SASL_AUTHENTICATE: Final = 19
TUNE: Final = 20
OPEN: Final = 21
CLOSE: Final = 22
HEARTBEAT: Final = 23
ROUTE: Final = 24
PARTITIONS: Final = 25
CONSUMER_UPDATE: Final = 26
EXCHANGE_COMMAND_VERSIONS: Final = 27
STREAM_STATS: Final = 28
CREATE_SUPER_STREAM: Final = 29
DELETE_SUPER_STREAM: Final = 30
RESOLVE_OFFSET: Final = 31

VERSIONS: Final = {
    **dict.fromkeys(range(DECLARE_PUBLISHER, RESOLVE_OFFSET + 1), (1, 1)),
    PUBLISH: (1, 2),
    DELIVER: (1, 2),
}
"""The lowest and the highest version of each command."""

TAKEN: Final = (
    DECLARE_PUBLISHER, PUBLISH, QUERY_PUBLISHER_SEQUENCE, DELETE_PUBLISHER, SUBSCRIBE, CREDIT,
    STORE_OFFSET, QUERY_OFFSET, UNSUBSCRIBE, CREATE, DELETE, METADATA, CLOSE, HEARTBEAT, ROUTE,
    PARTITIONS, STREAM_STATS, CREATE_SUPER_STREAM, DELETE_SUPER_STREAM, RESOLVE_OFFSET,
)  # fmt: skip
"""The commands in the answer to exchange_command_versions, in RabbitMQ's order."""

RESPONSE: Final = 0x8000
"""The bit that is set in the key of a response."""

OK: Final = 1
STREAM_DOES_NOT_EXIST: Final = 2
SUBSCRIPTION_ID_ALREADY_EXISTS: Final = 3
SUBSCRIPTION_ID_DOES_NOT_EXIST: Final = 4
STREAM_ALREADY_EXISTS: Final = 5
STREAM_NOT_AVAILABLE: Final = 6
SASL_MECHANISM_NOT_SUPPORTED: Final = 7
AUTHENTICATION_FAILURE: Final = 8
SASL_ERROR: Final = 9
SASL_CHALLENGE: Final = 10
SASL_AUTHENTICATION_FAILURE_LOOPBACK: Final = 11
VHOST_ACCESS_FAILURE: Final = 12
UNKNOWN_FRAME: Final = 13
FRAME_TOO_LARGE: Final = 14
INTERNAL_ERROR: Final = 15
ACCESS_REFUSED: Final = 16
PRECONDITION_FAILED: Final = 17
PUBLISHER_DOES_NOT_EXIST: Final = 18
NO_OFFSET: Final = 19

ERRORS: Final = {
    STREAM_DOES_NOT_EXIST: "stream_does_not_exist",
    SUBSCRIPTION_ID_ALREADY_EXISTS: "subscription_id_already_exists",
    SUBSCRIPTION_ID_DOES_NOT_EXIST: "subscription_id_does_not_exist",
    STREAM_ALREADY_EXISTS: "stream_already_exists",
    STREAM_NOT_AVAILABLE: "stream_not_available",
    SASL_MECHANISM_NOT_SUPPORTED: "sasl_mechanism_not_supported",
    AUTHENTICATION_FAILURE: "authentication_failure",
    SASL_ERROR: "sasl_error",
    SASL_CHALLENGE: "sasl_challenge",
    SASL_AUTHENTICATION_FAILURE_LOOPBACK: "sasl_authentication_failure_loopback",
    VHOST_ACCESS_FAILURE: "vhost_access_failure",
    UNKNOWN_FRAME: "unknown_frame",
    FRAME_TOO_LARGE: "frame_too_large",
    INTERNAL_ERROR: "internal_error",
    ACCESS_REFUSED: "access_refused",
    PRECONDITION_FAILED: "precondition_failed",
    PUBLISHER_DOES_NOT_EXIST: "publisher_does_not_exist",
}
"""The names of the codes that are counted as errors. `NO_OFFSET` is not an error."""

NO_NODE: Final = 65_535
"""The reference of an unknown leader."""
