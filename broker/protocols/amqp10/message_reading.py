"""Messages that clients publish, from their bytes to the header and the body that queues keep.

Most messages have sections of simple forms: their values are copied into properties of AMQP 0-9-1
(broker/amqp10/sections_to_properties.py), and the sections themselves are the `Form` that clients
of AMQP 1.0 get. messages.py reads the others. Compiled.
"""

from typing import Final

from librt.strings import BytesWriter
from mypy_extensions import i64, u8

from leveret.broker.amqp.content_header import ContentHeader, Form
from leveret.broker.amqp.properties import HEADERS, STORED_FORM, scan
from leveret.broker.amqp10.sections_to_properties import (
    NO_OFFSET,
    UNKNOWN_KIND,
    SectionsReader,
)
from leveret.broker.amqp10.unsigned import read_uint32, write_uint32
from leveret.broker.protocols.amqp10.messages import (
    FORM,
    SECTIONS_BYTES_MAX,
    SectionsTooLarge,
    read_published,
)

_WRITER: Final = BytesWriter()
"""Emptied before each use."""
_FORM_FIELD: Final = b"%c%bA" % (len(STORED_FORM), STORED_FORM.encode())
_FORM_NAME: Final = b"S\0\0\0%c%bx" % (len(FORM), FORM.encode())
"""Before the data of a form in the headers that are stored (`content_header.make_header`)."""


class MessageReader:
    """Reads messages, one after the other.

    header, body, to, subject, user: those of the last message; None for properties it lacks.
    """

    __slots__ = ("_is_durable", "_sections", "body", "header", "subject", "to", "user")

    def __init__(self, is_durable: bool) -> None:
        """is_durable: whether a message is durable that has no header section."""
        self._is_durable = is_durable
        self._sections = SectionsReader(is_4=True, is_durable=is_durable)
        self.header: ContentHeader | None = None
        self.body = b""
        self.to: str | None = None
        self.subject: str | None = None
        self.user: str | None = None

    def read(self, data: bytes, at: i64, end: i64) -> ContentHeader:
        """Read the message in these bytes; returns its header.

        Raises Amqp10Error, AnnotationRefused, SectionsTooLarge.
        """
        sections = self._sections
        writer = _WRITER
        writer.truncate(0)
        try:
            is_simple = sections.read(data, at, end) and not sections.has_annotations
            if is_simple:
                if sections.body_at - at > SECTIONS_BYTES_MAX:
                    raise SectionsTooLarge(int(sections.body_at - at))
                is_simple = sections.write_properties(writer, data, NO_OFFSET)
        except IndexError:
            is_simple = False
        if not is_simple:
            return self._read_other(data[at:end])
        form = data[sections.sections_at : sections.sections_end]
        raw = writer.getvalue()
        kind = scan(raw) if sections.kind == UNKNOWN_KIND else int(sections.kind)
        stored = _stored(writer, raw, form, sections.table_at, sections.table_end)
        header = ContentHeader(raw, kind, (), False, stored, None, Form(FORM, form))
        self.body = data[sections.body_at : end]
        self.to = _text(data, sections.to_at)
        self.subject = _text(data, sections.subject_at)
        self.user = _text(data, sections.user_at)
        self.header = header
        return header

    def _read_other(self, payload: bytes) -> ContentHeader:
        published = read_published(payload, self._is_durable)
        self.body = published.body
        self.to, self.subject, self.user = published.to, published.subject, published.user
        self.header = published.header
        return published.header


def _text(data: bytes, at: i64) -> str | None:
    """The short string at this place; None for place 0."""
    if not at:
        return None
    return data[at + 1 : at + 1 + data[at]].decode("utf-8", "surrogateescape")


def _stored(writer: BytesWriter, raw: bytes, form: bytes, table_at: i64, table_end: i64) -> bytes:
    """The properties with the form as a header. table_at, table_end: as in `SectionsReader`."""
    field: i64 = len(_FORM_FIELD) + 4 + len(_FORM_NAME) + 4 + len(form)
    writer.truncate(0)
    writer.append(u8(raw[0] | HEADERS >> 8))
    writer.write(raw[1:table_at])
    if table_end > table_at:
        write_uint32(writer, read_uint32(raw, table_at) + field)
        writer.write(raw[table_at + 4 : table_end])
    else:
        write_uint32(writer, field)
    writer.write(_FORM_FIELD)
    write_uint32(writer, len(_FORM_NAME) + 4 + len(form))
    writer.write(_FORM_NAME)
    write_uint32(writer, len(form))
    writer.write(form)
    writer.write(raw[table_end:])
    return writer.getvalue()
