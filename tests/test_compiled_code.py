"""Code that mypyc compiles to something else than Python runs."""

import ast
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
COMPILED = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["leveret"]["compiled"]
TREES = {name: ast.parse((ROOT / f"{name.replace('.', '/')}.py").read_text()) for name in COMPILED}
FUNCTIONS = ast.FunctionDef | ast.AsyncFunctionDef
CLASSES = {
    (module, node.name): node
    for module, tree in TREES.items()
    for node in ast.walk(tree)
    if isinstance(node, ast.ClassDef)
}


def test_no_function_is_defined_in_another():
    """It is kept where its variables are, to which it refers: a cycle each time it is made, which
    only the garbage collector frees. A lambda, a partial or a method is in none.

    Decorators are called once.
    """
    found = [
        f"{module}:{inner.lineno}: {inner.name} in {outer.name}"
        for module, tree in TREES.items()
        for outer in ast.walk(tree)
        if isinstance(outer, FUNCTIONS)
        for inner in ast.walk(outer)
        if isinstance(inner, FUNCTIONS) and inner is not outer and not inner.decorator_list
    ]
    assert found == []


def test_no_init_sets_again_what_the_init_of_a_base_has_set():
    """What the attribute had before is not given up, and stays for ever."""
    found = [
        f"{module}.{name}: {attribute}"
        for (module, name), node in CLASSES.items()
        for base in bases(module, node)
        for attribute in set_by_init(node) & set_by_init(base)
        if calls_base(node)
    ]
    assert found == []


def test_the_errors_of_a_function_have_names_of_their_own():
    """A name has one type in a function. With a second one for the same name, the compiled `except`
    raises a TypeError instead of handling the error.
    """
    found = [
        f"{module}:{function.lineno}: {name} is {' and '.join(sorted(types))}"
        for module, tree in TREES.items()
        for function in ast.walk(tree)
        if isinstance(function, FUNCTIONS)
        for name, types in errors_of(function).items()
        if len(types) > 1
    ]
    assert found == []


def errors_of(function):
    """The types that each name of an error stands for."""
    found = {}
    for one in ast.walk(function):
        if isinstance(one, ast.ExceptHandler) and one.name:
            found.setdefault(one.name, set()).add(ast.unparse(one.type))
    return found


def bases(module, node):
    """The compiled classes that a class of a module is made of."""
    for written in node.bases:
        name = written.value if isinstance(written, ast.Subscript) else written
        place = place_of(module, name.id) if isinstance(name, ast.Name) else None
        if place in CLASSES:
            yield CLASSES[place]
            yield from bases(place[0], CLASSES[place])


def place_of(module, name):
    """The module that a class is from, and its name there."""
    for one in TREES[module].body:
        if isinstance(one, ast.ImportFrom):
            for alias in one.names:
                if name == (alias.asname or alias.name):
                    return one.module.removeprefix("leveret."), alias.name
    return module, name


def init_of(node):
    """All that is in the `__init__` of a class."""
    for one in node.body:
        if isinstance(one, ast.FunctionDef) and one.name == "__init__":
            yield from ast.walk(one)


def set_by_init(node):
    """The attributes of `self` that the `__init__` of a class sets."""
    return {
        one.attr
        for one in init_of(node)
        if isinstance(one, ast.Attribute)
        and isinstance(one.ctx, ast.Store)
        and isinstance(one.value, ast.Name)
        and one.value.id == "self"
    }


def calls_base(node):
    """Whether the `__init__` of a class calls that of its base."""
    return any(isinstance(one, ast.Attribute) and one.attr == "__init__" for one in init_of(node))
