"""`pipeline/domain` decides by its arguments alone: no clock, no chance, no IO, no order that could differ."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import pipeline.domain

FILES = sorted(Path(pipeline.domain.__file__).parent.rglob("*.py"))

MODULES = (
    "__future__", "bisect", "collections", "collections.abc", "dataclasses", "enum", "fractions", "functools", "heapq",
    "itertools", "json", "math", "numbers", "operator", "re", "typing",
)  # fmt: skip
BUILTINS = (
    "__import__", "breakpoint", "compile", "eval", "exec", "exit", "globals", "hash", "id", "input", "locals", "open",
    "print", "vars",
)  # fmt: skip
INTEGERS = ("kept", "of", "open", "payload_bytes", "pool", "quota")
"""Fields that the builtin sum may add up; `len(...)` may be too. Floats are added by math.fsum."""
ORDERING = ("dict", "enumerate", "filter", "fromkeys", "iter", "join", "list", "map", "next", "pop", "tuple", "zip")
"""Calls that take the members of a set in their order; `sorted`, `len`, `in` and `==` don't depend on it."""


def impurities(source: str) -> list[str]:
    """Everything in a module that the rules forbid, as `line: what`."""
    tree = ast.parse(source)
    names = _set_names(tree)
    return [f"{_line(node)}: {what}" for node in ast.walk(tree) for what in _of(node, names)]


def _line(node: ast.AST) -> int:
    return getattr(node.iter if isinstance(node, ast.comprehension) else node, "lineno", 0)


def _of(node: ast.AST, sets: dict[str, None]) -> Iterator[str]:
    match node:
        case ast.Import(names=names):
            yield from (f"imports {n.name}" for n in names if n.name not in MODULES)
        case ast.ImportFrom(module=module, level=level):
            if level or (module not in MODULES and not f"{module}.".startswith("pipeline.domain.")):
                yield f"imports {module}"
        case ast.Call(func=ast.Name(id="sum")):
            if not _adds_integers(node):
                yield "sums what may be floats"
        case ast.Call(func=ast.Name(id=name)) if name in BUILTINS:
            yield f"calls {name}"
        case ast.Global() | ast.AsyncFunctionDef() | ast.Await():
            yield f"has a {type(node).__name__}"
        case ast.ClassDef(body=body):
            for field in body:
                if isinstance(field, ast.AnnAssign) and _is_set_type(field.annotation):
                    yield f"keeps a set in {node.name}"
    match node:
        case ast.For(iter=iterated) | ast.comprehension(iter=iterated) | ast.Starred(value=iterated):
            if _is_set(iterated, sets):
                yield "iterates over a set"
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name), args=args) if name in ORDERING:
            taken = [*args, node.func.value] if isinstance(node.func, ast.Attribute) and name == "pop" else args
            if any(_is_set(a, sets) for a in taken):
                yield f"takes a set's order by {name}"


def _adds_integers(call: ast.Call) -> bool:
    match call.args:
        case [ast.ListComp(elt=ast.Call(func=ast.Name(id="len")))]:
            return True
        case [ast.ListComp(elt=ast.Attribute(attr=name) | ast.Call(func=ast.Attribute(attr=name)))]:
            return name in INTEGERS
    return False


def _is_set_type(annotation: ast.expr | None) -> bool:
    return annotation is not None and any(
        isinstance(n, ast.Name) and n.id in ("set", "frozenset", "AbstractSet") for n in ast.walk(annotation)
    )


def _is_set(node: ast.expr, names: dict[str, None]) -> bool:
    match node:
        case ast.Set() | ast.SetComp() | ast.Call(func=ast.Name(id="set" | "frozenset")):
            return True
        case ast.BinOp(left=left, right=right):
            return _is_set(left, names) or _is_set(right, names)
        case ast.Name(id=name):
            return name in names
    return False


def _set_names(tree: ast.AST) -> dict[str, None]:
    """Names that are a set somewhere in the module."""
    found: dict[str, None] = {}
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=targets, value=value) if _is_set(value, {}):
                found |= {t.id: None for t in targets if isinstance(t, ast.Name)}
            case ast.AnnAssign(target=ast.Name(id=name), annotation=annotation) if _is_set_type(annotation):
                found[name] = None
            case ast.arg(arg=name, annotation=annotation) if _is_set_type(annotation):
                found[name] = None
            case _:
                continue
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_the_domain_is_pure(path: Path) -> None:
    assert impurities(path.read_text()) == []


@pytest.mark.parametrize(
    "source",
    [
        "import time",
        "from datetime import datetime",
        "import random",
        "import os",
        "import statistics",
        "from pipeline.log.codec import encode",
        "from pipeline.domainlike import x",
        "from . import events",
        "sum(m.reward for m in members)",
        "sum([m.reward for m in members])",
        "sum(values)",
        "hash(x)",
        "id(x)",
        "open('f')",
        "print(1)",
        "for x in {1, 2}: pass",
        "seen = set(a)\nfor x in seen: pass",
        "seen = {a for a in b}\nlist(seen)",
        "def f(seen: set[str]) -> None:\n    seen.pop()",
        "lost = set(a)\n[x for x in lost - {1}]",
        "print_all(*{1, 2})",
        "class State:\n    seen: set[str]",
        "global x",
    ],
)  # fmt: skip
def test_what_would_make_a_decision_differ_is_found(source: str) -> None:
    assert impurities(source) != []


@pytest.mark.parametrize(
    "source",
    [
        "from math import fsum\nfsum(m.reward for m in members)",
        "sum([len(p) for p in pools])",
        "sum([m.payload_bytes for m in members])",
        "seen = {1, 2}\nx in seen\nlen(seen)\nsorted(seen)",
        "for x in (1, 2): pass",
        "from pipeline.domain import events",
    ],
)
def test_what_cannot_differ_is_left_alone(source: str) -> None:
    assert impurities(source) == []
