"""The reply codes of AMQP 0-9-1 and their names, for close and return methods.

The numbers are those of the specification (section 1.2) and of RabbitMQ's extensions to it. A
reply text is ``NAME - explanation``; the name comes from here.
"""

REPLY_SUCCESS = 200
CONTENT_TOO_LARGE = 311
NO_ROUTE = 312
NO_CONSUMERS = 313
CONNECTION_FORCED = 320
INVALID_PATH = 402
ACCESS_REFUSED = 403
NOT_FOUND = 404
RESOURCE_LOCKED = 405
PRECONDITION_FAILED = 406
FRAME_ERROR = 501
SYNTAX_ERROR = 502
COMMAND_INVALID = 503
CHANNEL_ERROR = 504
UNEXPECTED_FRAME = 505
RESOURCE_ERROR = 506
NOT_ALLOWED = 530
NOT_IMPLEMENTED = 540
INTERNAL_ERROR = 541

NAMES: dict[int, str] = {
    value: name for name, value in sorted(globals().items()) if isinstance(value, int)
}
