"""What a class lacks of an interface, by comparing names and parameters."""

import inspect


def members(protocol):
    """The names that a protocol asks for: methods, properties and annotated attributes."""
    declared = {**protocol.__annotations__, **vars(protocol)}
    return sorted(name for name in declared if not name.startswith("_"))


def missing(protocol, implementation):
    """The members that a class or an object lacks, or has with other parameters."""
    return [name for name in members(protocol) if not _is_alike(protocol, implementation, name)]


def _is_alike(protocol, implementation, name):
    if not hasattr(implementation, name):
        return False
    asked = getattr(protocol, name, None)
    if not inspect.isroutine(asked):
        return getattr(implementation, name) is not asked
    found = getattr(implementation, name)
    if found is asked or not callable(found):  # inherited, as it is asked for
        return False
    try:
        given = _parameters(found)
    except ValueError:
        return True  # a compiled method, which mypy has checked
    is_coroutine = inspect.iscoroutinefunction(found)
    return is_coroutine == inspect.iscoroutinefunction(asked) and given == _parameters(asked)


def _parameters(function):
    """The parameters of a function. Raises ValueError if it is compiled and does not tell."""
    return [
        (parameter.name, parameter.kind, parameter.default)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]
