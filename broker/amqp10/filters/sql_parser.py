"""Parses SQL filter expressions to functions (OASIS, AMQP Filter Expressions 1.0, part 6).

The grammar is RabbitMQ's (rabbit_amqp_sql_parser.yrl), from what binds least to what binds most:

    condition    = condition OR condition | condition AND condition | NOT condition | comparison
    comparison   = sum [(= | <> | != | > | < | >= | <=) sum]
                 | sum [NOT] LIKE string [ESCAPE string]
                 | sum [NOT] IN ( sum , ... )
                 | identifier IS [NOT] NULL
    sum          = product + product | product - product
    product      = signed * signed | signed / signed | signed % signed
    signed       = [+ | -] primary
    primary      = ( condition ) | literal | identifier | UTC ( )

Recursion is bounded by the limit of tokens (sql_tokens.py), and `DEPTH_MAX`.
"""

from collections.abc import Callable
from typing import Final

from leveret.broker.amqp10.filters.like_patterns import PatternError, compile_pattern
from leveret.broker.amqp10.filters.message_fields import Scalar
from leveret.broker.amqp10.filters.sql_operators import (
    COMPARISONS,
    Expression,
    absent,
    application_property,
    both,
    compared,
    computed,
    contained,
    either,
    like,
    literal,
    negated,
    priority,
    property_of,
    signed,
    time_now,
)
from leveret.broker.amqp10.filters.sql_tokens import (
    BINARY,
    BOOLEAN,
    END,
    FLOAT,
    IDENTIFIER,
    INTEGER,
    PRIORITY_FIELD,
    SECTION_FIELD,
    STRING,
    SqlError,
    SqlToken,
    read_tokens,
)

DEPTH_MAX: Final = 60
"""How deep conditions in parentheses may be nested."""
_LITERALS: Final = frozenset((INTEGER, FLOAT, STRING, BINARY, BOOLEAN))
_FIELDS: Final = frozenset((IDENTIFIER, SECTION_FIELD))
_SUMS: Final = frozenset("+-")
_PRODUCTS: Final = frozenset("*/%")


def parse_sql(text: str, now_ms: Callable[[], int]) -> Expression:
    """The function that evaluates an expression; a message passes if it returns True.

    now_ms: the time in milliseconds since 1970. Raises SqlError.
    """
    parser = _SqlParser(read_tokens(text), now_ms)
    expression = parser.condition()
    parser.expect(END, "AND, OR, or the end")
    return expression


class _SqlParser:
    """Parses tokens, one after the other."""

    def __init__(self, tokens: list[SqlToken], now_ms: Callable[[], int]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0
        self._now_ms = now_ms

    @property
    def _next(self) -> SqlToken:
        return self._tokens[self._at]

    def _take(self, kind: str) -> bool:
        """Take the next token if it is of this kind."""
        if self._next.kind != kind:
            return False
        self._at += 1
        return True

    def expect(self, kind: str, wanted: str) -> SqlToken:
        """Take the next token, which has to be of this kind. wanted: for the error's text."""
        token = self._next
        if token.kind != kind:
            raise self._unexpected(wanted)
        self._at += 1
        return token

    def _unexpected(self, wanted: str) -> SqlError:
        token = self._next
        found = token.kind if token.value is None else f"{token.kind} {token.value!r}"
        return SqlError(f"{wanted} is expected instead of {found}", token.position)

    # Conditions

    def condition(self) -> Expression:
        """Alternatives."""
        found = self._conjunction()
        while self._take("OR"):
            found = either(found, self._conjunction())
        return found

    def _conjunction(self) -> Expression:
        found = self._negation()
        while self._take("AND"):
            found = both(found, self._negation())
        return found

    def _negation(self) -> Expression:
        count = 0
        while self._take("NOT"):
            count += 1
        found = self._comparison()
        # An even number of them is like two, which make a value that is no truth value unknown.
        for _ in range(count if count < 3 else 2 - count % 2):
            found = negated(found)
        return found

    def _comparison(self) -> Expression:
        begin = self._at
        left = self._sum()
        sign = self._next.kind
        if sign in COMPARISONS:
            self._at += 1
            return compared(sign, left, self._sum())
        if sign == "IS":
            return self._null_test(left, begin)
        is_negated = self._take("NOT")
        if self._take("LIKE"):
            found = self._like(left)
        elif self._take("IN"):
            found = contained(left, self._members())
        elif is_negated:
            raise self._unexpected("LIKE or IN")
        else:
            return left
        return negated(found) if is_negated else found

    def _null_test(self, left: Expression, begin: int) -> Expression:
        if self._at - begin != 1 or self._tokens[begin].kind not in _FIELDS:
            raise SqlError("only an identifier can be before IS", self._next.position)
        self._at += 1
        is_negated = self._take("NOT")
        self.expect("NULL", "NULL")
        return negated(absent(left)) if is_negated else absent(left)

    def _like(self, left: Expression) -> Expression:
        pattern = self.expect(STRING, "a pattern in quotes")
        escape = None
        if self._take("ESCAPE"):
            token = self.expect(STRING, "a character in quotes")
            escape = str(token.value)
            if len(escape) != 1:
                raise SqlError("ESCAPE takes one character", token.position)
        try:
            return like(left, compile_pattern(str(pattern.value), escape))
        except PatternError as error:
            raise SqlError(f"the pattern of LIKE is not valid: {error}", pattern.position) from None

    def _members(self) -> list[Expression]:
        self.expect("(", "(")
        members = [self._sum()]
        while self._take(","):
            members.append(self._sum())
        self.expect(")", ", or )")
        return members

    # Values

    def _sum(self) -> Expression:
        return self._computed(_SUMS, self._product)

    def _product(self) -> Expression:
        return self._computed(_PRODUCTS, self._signed)

    def _computed(self, signs: frozenset[str], operand: Callable[[], Expression]) -> Expression:
        """Operands with signs between them, from left to right."""
        found = operand()
        while (sign := self._next.kind) in signs:
            self._at += 1
            found = computed(sign, found, operand())
        return found

    def _signed(self) -> Expression:
        sign = self._next.kind
        if sign in _SUMS:
            self._at += 1
            return signed(sign, self._primary())
        return self._primary()

    def _primary(self) -> Expression:
        token = self._next
        if token.kind in _LITERALS:
            self._at += 1
            return literal(_value(token))
        if token.kind in _FIELDS:
            self._at += 1
            return _field(token)
        if self._take("UTC"):
            self.expect("(", "(")
            self.expect(")", ")")
            return time_now(self._now_ms)
        if self._take("("):
            return self._nested(token)
        raise self._unexpected("a value")

    def _nested(self, opening: SqlToken) -> Expression:
        self._depth += 1
        if self._depth > DEPTH_MAX:
            raise SqlError(f"conditions are nested more than {DEPTH_MAX} deep", opening.position)
        found = self.condition()
        self.expect(")", ")")
        self._depth -= 1
        return found


def _value(token: SqlToken) -> Scalar:
    return token.value.encode() if isinstance(token.value, str) else token.value


def _field(token: SqlToken) -> Expression:
    name = str(token.value)
    if token.kind == IDENTIFIER:
        return application_property(name.encode())
    return priority() if name == PRIORITY_FIELD else property_of(name)
