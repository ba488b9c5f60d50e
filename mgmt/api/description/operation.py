"""The parts of the description of one operation that do not follow from the route table.

Summaries are the docstrings of the routes' functions, parameters in paths are taken from the paths,
and properties of every operation (logins, methods, formats) are added by `document.py`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from leveret.mgmt.api.description.schemas import (
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
    """A parameter of the query, or a header."""

    name: str
    schema: Schema
    place: str = "query"


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path.

    answer: the schema of 200, of one item if it is `paged`; None for 204. statuses: other statuses
    than those that every operation has. body: the schema of the request's body. columns: the
    parameter `columns` may select fields. makes: it answers 201 with the location of a new object.
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
    """Several names, separated by spaces, if the answer depends on the request."""
    makes: bool = False


class TaggedOperations:
    """Collects the operations of one part of the API."""

    def __init__(self, tag: str) -> None:
        self._tag = tag

    def shows(
        self, path: str, answer: Schema, *statuses: int, parameters: Iterable[Parameter] = ()
    ) -> Operation:
        """GET of an object, of which `columns` may select fields."""
        return Operation(
            "GET", path, self._tag, answer, statuses, parameters=tuple(parameters), columns=True
        )

    def lists(
        self, path: str, item: Schema, *statuses: int, parameters: Iterable[Parameter] = ()
    ) -> Operation:
        """GET of a list that can be filtered, sorted and divided into pages."""
        return Operation(
            "GET", path, self._tag, item, (400, *statuses), columns=True, paged=True,
            parameters=(*parameters, *PAGING),
        )  # fmt: skip

    def gets(
        self, path: str, answer: Schema, *statuses: int, parameters: Iterable[Parameter] = ()
    ) -> Operation:
        """GET of an object without `columns`."""
        return Operation("GET", path, self._tag, answer, statuses, parameters=tuple(parameters))

    def puts(self, path: str, body: Schema, *statuses: int) -> Operation:
        """PUT that creates or changes an object."""
        return Operation("PUT", path, self._tag, None, (400, *statuses), body)

    def posts(
        self, path: str, body: Schema | None, answer: Schema | None, *statuses: int,
        parameters: Iterable[Parameter] = (),
    ) -> Operation:  # fmt: skip
        """POST of an action."""
        expected = statuses if body is None else (400, *statuses)
        return Operation(
            "POST", path, self._tag, answer, expected, body, parameters=tuple(parameters)
        )

    def deletes(self, path: str, *statuses: int, parameters: Iterable[Parameter] = ()) -> Operation:
        """DELETE."""
        return Operation("DELETE", path, self._tag, None, statuses, parameters=tuple(parameters))


COLUMNS = Parameter("columns", described(TEXT, "Names of fields with commas; a.b is b within a."))
SORTING = (
    Parameter("sort", described(TEXT, "The field to sort by; a.b is b within a.")),
    Parameter("sort_reverse", described(TEXT, "`true`: in descending order.")),
)
SIZE: Schema = {"type": "integer", "minimum": 1, "maximum": 500, "default": 100}
PAGING = (
    Parameter("page", {"type": "integer", "minimum": 1}),
    Parameter("page_size", described(any_of(SIZE, TEXT), "Only used with `page`.")),
    Parameter("name", described(TEXT, "With `page`: a part of the name.")),
    Parameter("use_regex", described(TEXT, "`true`: `name` is a regular expression.")),
    Parameter("pagination", described(TEXT, "`true`: a page, as older clients ask for it.")),
    *SORTING,
)


WHOLE_OR_NONE = any_of(WHOLE, one_of(""))
SECONDS = described(TEXT, "A whole number of seconds. Without both of them there are no samples.")
"""A number; an empty value means the same as a missing parameter."""


def window(*kinds: str) -> tuple[Parameter, ...]:
    """The parameters of a window of samples: how many seconds, and one sample every how many."""
    return tuple(Parameter(f"{kind}_{part}", SECONDS) for kind in kinds for part in ("age", "incr"))


QUEUE_WINDOWS = window("msg_rates", "lengths")


def choice(name: str, *values: str) -> Parameter:
    """A parameter that has a meaning for some values, and ignores others."""
    return Parameter(name, described(TEXT, f"One of {', '.join(values)}; others are ignored."))


def page_of(item: Schema) -> Schema:
    """A page of a list."""
    return record(
        {
            "filtered_count": COUNT, "item_count": COUNT, "items": list_of(item), "page": COUNT,
            "page_count": COUNT, "page_size": COUNT, "total_count": COUNT,
        }
    )  # fmt: skip
