"""What the description says of one operation, beside what the route table knows already.

Summaries are the docstrings of the functions that answer, parameters in paths are read off the
paths, and what is true of every operation (logins, methods, formats) is added by `document.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mgmt.api.description.schemas import (
    COUNT,
    TEXT,
    WHOLE,
    Schema,
    any_of,
    described,
    list_of,
    one_of,
    record,
)

JSON = "application/json"


class Parameter(NamedTuple):
    """A parameter of a query, or a header."""

    name: str
    schema: Schema
    place: str = "query"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    answer: the schema of 200, of one item if it is `paged`; None for 204. statuses: which others
    there are, beside those that every operation has. body: of a request that takes one. columns:
    that `columns` may pick some fields. makes: that it answers 201 and says where what it made is.
    """

    method: str
    path: str
    tag: str
    answer: Schema | None = None
    statuses: tuple[int, ...] = ()
    body: Schema | None = None
    body_type: str = JSON
    parameters: tuple[Parameter, ...] = ()
    columns: bool = False
    paged: bool = False
    answer_type: str = JSON
    """Several, with spaces between them, if it depends on what is asked for."""
    makes: bool = False


class Tagged:
    """Makes the operations of one part of the API."""

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def shows(
        self, path: str, answer: Schema, *statuses: int, parameters: Iterable[Parameter] = ()
    ) -> Operation:
        """GET of an object, of which `columns` may pick some."""
        return Operation(
            "GET", path, self._tag, answer, statuses, parameters=tuple(parameters), columns=True
        )

    def lists(
        self, path: str, item: Schema, *statuses: int, parameters: Iterable[Parameter] = ()
    ) -> Operation:
        """GET of a list that may be filtered, sorted and shown in pages."""
        return Operation(
            "GET", path, self._tag, item, (400, *statuses), columns=True, paged=True,
            parameters=(*parameters, *PAGING),
        )  # fmt: skip

    def tells(
        self, path: str, answer: Schema, *statuses: int, parameters: Iterable[Parameter] = ()
    ) -> Operation:
        """GET of what is shown as it is."""
        return Operation("GET", path, self._tag, answer, statuses, parameters=tuple(parameters))

    def puts(self, path: str, body: Schema, *statuses: int) -> Operation:
        """PUT that makes or changes something."""
        return Operation("PUT", path, self._tag, None, (400, 413, *statuses), body)

    def posts(
        self, path: str, body: Schema | None, answer: Schema | None, *statuses: int,
        parameters: Iterable[Parameter] = (),
    ) -> Operation:  # fmt: skip
        """POST that does something."""
        expected = statuses if body is None else (400, 413, *statuses)
        return Operation(
            "POST", path, self._tag, answer, expected, body, parameters=tuple(parameters)
        )

    def deletes(self, path: str, *statuses: int, parameters: Iterable[Parameter] = ()) -> Operation:
        """DELETE."""
        return Operation("DELETE", path, self._tag, None, statuses, parameters=tuple(parameters))


COLUMNS = Parameter("columns", described(TEXT, "Names of fields with commas; a.b is b within a."))
SORTING = (
    Parameter("sort", described(TEXT, "The field to sort by; a.b is b within a.")),
    Parameter("sort_reverse", described(TEXT, "`true` for the other way round.")),
)
SIZE: Schema = {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}
PAGING = (
    Parameter("page", {"type": "integer", "minimum": 1}),
    Parameter("page_size", described(any_of(SIZE, TEXT), "Looked at with `page` only.")),
    Parameter("name", described(TEXT, "With `page`: a part of the name.")),
    Parameter("use_regex", described(TEXT, "`true`: `name` is a regular expression.")),
    Parameter("pagination", described(TEXT, "`true`: a page, as clients of old ask for it.")),
    *SORTING,
)


WHOLE_OR_NONE = any_of(WHOLE, one_of(""))
"""A number that is the same as left out if it is empty."""


def window(*kinds: str) -> tuple[Parameter, ...]:
    """Which samples are wanted: so many seconds back, one every so many."""
    return tuple(
        Parameter(f"{kind}_{part}", WHOLE_OR_NONE) for kind in kinds for part in ("age", "incr")
    )


QUEUE_WINDOWS = window("msg_rates", "lengths")


def choice(name: str, *values: str) -> Parameter:
    """A parameter that has a meaning for some values only, and lets others pass."""
    return Parameter(name, described(TEXT, f"Known: {', '.join(values)}."))


def page_of(item: Schema) -> Schema:
    """A page of a list."""
    return record(
        {
            "filtered_count": COUNT, "item_count": COUNT, "items": list_of(item), "page": COUNT,
            "page_count": COUNT, "page_size": COUNT, "total_count": COUNT,
        }
    )  # fmt: skip


STATUS_OK = record({"status": one_of("ok")})
