"""Rules as the page writes them, such as `mean(rewards) ≤ threshold_down`, worked out without the product's code."""

from __future__ import annotations

import ast
import math
import operator
import re
import statistics
from collections.abc import Callable, Mapping, Sequence
from typing import Any

WORDS = {"≤": "<=", "≥": ">=", "·": "*", "−": "-"}
COMPARED = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq,
}  # fmt: skip
REACHED = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def std(values: Sequence[float], ddof: int) -> float:
    """The standard deviation; 0 where there is none."""
    if len(values) <= ddof:
        return 0.0
    return statistics.stdev(values) if ddof else statistics.pstdev(values)


def repeated(ids: Sequence[int], ngram: int) -> float:
    """The share of the runs of so many tokens that have occurred before."""
    runs = [tuple(ids[i : i + ngram]) for i in range(len(ids) - ngram + 1)]
    return sum(run in runs[:i] for i, run in enumerate(runs)) / len(runs) if runs else 0.0


def probability(some: Sequence[float], scores: Sequence[float]) -> float:
    """What the softmax of the scores gives to some of them."""
    return sum(map(math.exp, some)) / sum(map(math.exp, scores))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mean": statistics.fmean, "std": std, "sum": math.fsum, "len": len, "min": min, "max": max, "ceil": math.ceil,
    "int": int, "sqrt": math.sqrt, "abs": abs, "repeated": repeated, "probability": probability,
    "distinct": lambda values: len(set(values)), "found": lambda pattern, text: bool(re.search(pattern, text)),
}  # fmt: skip


def value_of(formula: str, names: Mapping[str, Any]) -> Any:
    """What a formula comes to. A comparison with a bound that is none is false. ValueError if it can't be read."""
    for word, sign in WORDS.items():
        formula = formula.replace(word, sign)
    return _value(ast.parse(formula, mode="eval").body, names)


def _value(node: ast.expr, names: Mapping[str, Any]) -> Any:
    match node:
        case ast.Constant(value=value):
            return value
        case ast.Name(id=name):
            return names[name]
        case ast.Call(func=ast.Name(id=name), args=given):
            return FUNCTIONS[name](*[_value(arg, names) for arg in given])
        case ast.BoolOp(op=op, values=parts):
            told = [bool(_value(part, names)) for part in parts]
            return all(told) if isinstance(op, ast.And) else any(told)
        case ast.UnaryOp(op=op, operand=part):
            value = _value(part, names)
            return not value if isinstance(op, ast.Not) else -value
        case ast.IfExp(test=test, body=body, orelse=other):
            return _value(body if _value(test, names) else other, names)
        case ast.BinOp(left=left, op=op, right=right):
            return REACHED[type(op)](_value(left, names), _value(right, names))
        case ast.Compare(left=left, ops=ops, comparators=rest):
            values = [_value(part, names) for part in (left, *rest)]
            pairs = zip(ops, values, values[1:], strict=False)
            return all(None not in (a, b) and COMPARED[type(op)](a, b) for op, a, b in pairs)
    raise ValueError(f"{ast.unparse(node)} is no part of a rule")
