"""Records that the garbage collector does not track: messages, and what is made of each message.

A full collection looks at every tracked object, which takes 0.2 seconds for a million messages. So
the classes of these records are compiled as acyclic (`mypyc_attr(acyclic=True)`). Where they are
interpreted, `use_structs` puts msgspec structs in their place, which are not tracked either, and
are made in 30 ns instead of the 80 of a class with slots.

A record must never be part of a cycle of references when it is given up.
"""

import sys
from inspect import Parameter, signature
from types import FunctionType
from typing import Any

from msgspec import defstruct


def use_structs(module: str, *classes: type) -> None:
    """Replace these classes of a module by structs with the same fields and methods, unless they
    are compiled.

    The fields are the arguments of `__init__`, which does nothing but keep them, in their order.
    """
    for record in classes:
        if isinstance(vars(record)["__init__"], FunctionType):
            setattr(sys.modules[module], record.__name__, _struct(record))


def _struct(record: type) -> type:
    _, *parameters = signature(vars(record)["__init__"]).parameters.values()
    fields: list[Any] = [
        (each.name, Any) if each.default is Parameter.empty else (each.name, Any, each.default)
        for each in parameters
    ]
    left_out = {"__init__", "__slots__", *(each.name for each in parameters)}
    namespace = {name: value for name, value in vars(record).items() if name not in left_out}
    return defstruct(
        record.__name__, fields, namespace=namespace, module=record.__module__, gc=False, eq=False
    )
