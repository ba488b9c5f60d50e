"""Message bodies other than zeros: the content of files, or random JSON. Pure except for the files.

JSON is made as PerfTest makes it: a number of names and values is generated once, and each body is
an object with as many of them as the size allows.
"""

import json
import random
from pathlib import Path

from leveret.mgmt.perf.options import PerfOptions

WORD_LETTERS_MIN, WORD_LETTERS_MAX = 2, 20
INTEGER_MAX = 10_000_000
_LETTERS = "abcdefghijklmnopqrstuvwxyz"
_EMPTY_BYTES = 2


def bodies_of(options: PerfOptions) -> list[bytes]:
    """Return the bodies to publish in turns; empty for zeros. Raises OSError."""
    if options.json_body:
        return json_bodies(options.size, options.body_field_count, options.body_count)
    return [Path(name).read_bytes() for name in options.body]


def json_bodies(size: int, field_count: int, count: int) -> list[bytes]:
    """Return `count` objects of about `size` bytes: as many fields as fit, and at least one."""
    chance = random.Random()
    names = [_word(chance) for _ in range(field_count)]
    values = [_value(chance) for _ in range(field_count)]
    return [_object(chance, names, values, size) for _ in range(count)]


def _object(chance: random.Random, names: list[str], values: list[str], size: int) -> bytes:
    fields: list[str] = []
    length = _EMPTY_BYTES
    while length < size or not fields:
        field = f'"{chance.choice(names)}{len(fields)}":{chance.choice(values)}'
        length += len(field) + 1
        if fields and length > size + 1:
            break
        fields.append(field)
    return ("{" + ",".join(fields) + "}").encode()


def _word(chance: random.Random) -> str:
    letters = chance.randint(WORD_LETTERS_MIN, WORD_LETTERS_MAX)
    return "".join(chance.choices(_LETTERS, k=letters))


def _value(chance: random.Random) -> str:
    made = chance.choice([_word(chance), chance.randint(0, INTEGER_MAX), chance.random() < 0.5])
    return json.dumps(made)
