"""The text of functions that read and write values by their types: see generate.py."""

from __future__ import annotations

import struct
import typing
from collections.abc import Callable, Iterable, Mapping
from enum import StrEnum
from typing import Any, Final

from pipeline.log.binary import VARINTS, Codec, Malformed
from pipeline.log.derive import SEQUENCES, choices, item_type

MISFITS: Final = (IndexError, KeyError, ValueError, TypeError, OverflowError, struct.error, Malformed)

Lines = list[str]
CodecOf = Callable[[Any], Codec]
"""Composed or generated, whatever a type has."""


def _format(kinds: Iterable[Any]) -> struct.Struct:
    return struct.Struct("<" + "".join("d" if kind is float else "Bd" for kind in kinds))


def _optional(kind: Any) -> Any:
    """The X of `X | None`; None for any other type."""
    branches = choices(kind)
    return branches[1] if len(branches) == 2 and branches[0] is type(None) else None


def _is_enum(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, StrEnum)


def _indented(lines: Iterable[str]) -> Lines:
    return ["    " + line for line in lines]


class Source:
    """The text of one function, and what the names in it stand for."""

    def __init__(self, codec_of: CodecOf, **names: Any) -> None:
        self.codec_of, self.names = codec_of, {**names, "MISFITS": MISFITS}

    def bind(self, thing: Any) -> str:
        """A name for this."""
        name = f"g{len(self.names)}"
        self.names[name] = thing
        return name

    def function(self, arguments: str, body: Lines, otherwise: str) -> Any:
        """The function; `otherwise` is what it returns where it doesn't get through."""
        lines = ["try:", *_indented(body), "except MISFITS:", f"    return {otherwise}"]
        exec("\n".join([f"def made({arguments}):", *_indented(lines)]), self.names)  # noqa: S102 - of our own types
        return self.names["made"]


class Reading(Source):
    """Text that reads values from `data` at `at`, and moves `at` on. What it doesn't foresee has no key or index."""

    def all(self, places: Mapping[str, Any]) -> Lines:
        """Into these places, one after the other."""
        return [line for place, kind in places.items() for line in self.one(kind, place)]

    def doubles(self, places: Mapping[str, Any]) -> Lines:
        """By one call, if all are there."""
        kinds = list(places.values())
        form = _format(kinds)
        heads = [f"b{index}" for index, kind in enumerate(kinds) if kind is not float]
        targets = [name for i, (p, k) in enumerate(places.items()) for name in ([] if k is float else [f"b{i}"]) + [p]]
        begins = "" if kinds[0] is float else "data[at] == 2 and "
        lines = [f"whole = {begins}len(data) - at >= {form.size}", "if whole:"]
        lines += [f"    {', '.join(targets)} = {self.bind(form.unpack_from)}(data, at)"]
        lines += [f"    whole = {' == '.join(['2', *heads])}"] if heads else []
        return [*lines, "if whole:", f"    at += {form.size}", "else:", *_indented(self.all(places))]

    def one(self, kind: Any, to: str, depth: int = 0) -> Lines:
        """Into `to`."""
        if kind is int:
            two = ["c = data[at + 1]", "if c < 128:", f"    {to} = (b & 127 | c << 7) >> 1 ^ -(b & 1)", "    at += 2"]
            more = [*two, "else:", f"    {to}, at = long(data, at)"]
            return ["b = data[at]", "if b < 128:", f"    {to} = SHORT[b]", "    at += 1", "else:", *_indented(more)]
        if kind in (str, bytes):
            long, short = ["at, end = length(data, at)"], ["at += 1", "end = at + (b >> 1)"]
            found = ["b = data[at]", "if b & 129:", *_indented(long), "else:", *_indented(short)]
            return [*found, f"{to} = data[at:end]{'.decode()' if kind is str else ''}", "at = end"]
        if kind is float:
            return [f"({to},) = unpack(data, at)", "at += 8"]
        if kind is bool or _is_enum(kind):
            values = (False, True) if kind is bool else tuple(kind)
            table = {(1 if kind is bool else 2) * index: value for index, value in enumerate(values[:64])}
            return [f"{to} = {self.bind(table)}[data[at]]", "at += 1"]
        if inner := _optional(kind):
            there = ["if b != 2:", "    raise IndexError", *self.one(inner, to, depth)]
            return ["b = data[at]", "at += 1", "if not b:", f"    {to} = None", "else:", *_indented(there)]
        if depth == 0 and typing.get_origin(kind) in (*SEQUENCES, dict):
            return self._several(kind, to)
        return [f"{to}, at = {self.bind(self.codec_of(kind).read)}(data, at)"]

    def skip(self, kind: Any) -> Lines:
        """Past a value, whose length alone is looked at."""
        if kind is int:
            return ["while data[at] > 127:", "    at += 1", "at += 1"]
        if kind in (str, bytes):
            return ["b = data[at]", "at = length(data, at)[1] if b & 129 else at + 1 + (b >> 1)"]
        if kind is float or kind is bool or _is_enum(kind):
            return ["at += 8" if kind is float else "at += 1"]
        if inner := _optional(kind):
            return ["b = data[at]", "at += 1", "if b:", *_indented(self.skip(inner))]
        several = [f"_, at = {self.bind(self.codec_of(kind).read)}(data, at)"]
        if typing.get_origin(kind) not in (*SEQUENCES, dict):
            return several
        parts = typing.get_args(kind) if typing.get_origin(kind) is dict else (item_type(kind),)
        items = ["for _ in range(b >> 1):", *_indented(line for part in parts for line in self.skip(part))]
        end = ["if b:", *_indented([*items, "if data[at]:", "    raise IndexError", "at += 1"])]
        return ["b = data[at]", "if b & 129:", *_indented(several), "else:", *_indented(["at += 1", *end])]

    def _several(self, kind: Any, to: str) -> Lines:
        """One block of up to 63 items; the composed reader has no such limits."""
        origin = typing.get_origin(kind)
        if origin is dict:
            key, value = typing.get_args(kind)
            start, item = "{}", [*self.one(key, "key", 1), *self.one(value, "some[key]", 1)]
        else:
            start, item = "[]", [*self.one(item_type(kind), "item", 1), "add(item)"]
        finish = "some" if origin in (dict, list) else f"{origin.__name__ if origin else ''}(some)"
        self.names |= {sequence.__name__: sequence for sequence in SEQUENCES}
        block = [f"some = {start}", *([] if origin is dict else ["add = some.append"]), "at += 1"]
        block += ["for _ in range(b >> 1):", *_indented(item), "if data[at]:", "    raise IndexError", "at += 1"]
        empty = "{}" if origin is dict else f"{origin.__name__ if origin else ''}()"
        more = [f"{to}, at = {self.bind(self.codec_of(kind).read)}(data, at)"]
        choose = ["if not b:", f"    {to} = {empty}", "    at += 1", "elif b & 129:", *_indented(more), "else:"]
        return ["b = data[at]", *choose, *_indented([*block, f"{to} = {finish}"])]


Written = tuple[Lines, Lines]
"""Text that checks and prepares a value, and the expressions for its bytes."""


class Writing(Source):
    """Text that writes the value of a variable, which it may change."""

    def doubles(self, places: Mapping[str, Any]) -> Written:
        """By one call, if all are there."""
        first, form = next(iter(places)), _format(places.values())
        given = [name for place, kind in places.items() for name in ([] if kind is float else ["2"]) + [place]]
        together = f"{first} = {self.bind(form.pack)}({', '.join(given)})"
        each, parts = Lines(), Lines()
        for place, kind in places.items():
            lines, written = self.one(kind, place)
            each, parts = each + lines, parts + written
        apart = [*each, f"{first} = {' + '.join(parts)}"]
        all_there = " and ".join(f"type({place}) is float" for place in places)
        return [f"if {all_there}:", f"    {together}", "else:", *_indented(apart)], [first]

    def one(self, kind: Any, of: str, depth: int = 0) -> Written:
        """The value of `of`."""
        if inner := _optional(kind):
            lines, parts = self.one(inner, of, depth)
            some = f"pack_some(2, {of})" if inner is float else " + ".join([r"b'\2'", *parts])
            there = [*lines, f"{of} = {some}"]
            return [f"if {of} is None:", f"    {of} = b'\\0'", "else:", *_indented(there)], [of]
        if kind is bool:
            table = {False: b"\0", True: b"\1"}
            return self._checked(bool, of), [f"{self.bind(table)}[{of}]"]
        if kind in (int, float):
            return self._checked(kind, of), [f"V[{of}]" if kind is int else f"pack({of})"]
        if kind in (str, bytes):
            encode = [f"{of} = {of}.encode()"] if kind is str else []
            return [*self._checked(kind, of), *encode], [f"V[len({of})]", of]
        if _is_enum(kind):
            table = {member: VARINTS[index] for index, member in enumerate(kind)}
            return self._checked(kind, of), [f"{self.bind(table)}[{of}]"]
        if depth == 0 and typing.get_origin(kind) in (*SEQUENCES, dict):
            return self._several(kind, of)
        return [], [f"{self.bind(self.codec_of(kind).writers)}[type({of})]({of})"]

    def _several(self, kind: Any, of: str) -> Written:
        origin: Any = typing.get_origin(kind)
        if origin is dict:
            (key, value), loop = typing.get_args(kind), f"for key, item in {of}.items():"
            lines, parts = (k + v for k, v in zip(self.one(key, "key", 1), self.one(value, "item", 1), strict=True))
        else:
            loop = f"for item in {of}:"
            lines, parts = self.one(item_type(kind), "item", 1)
        some = [f"some = [V[len({of})]]", loop, *_indented([*lines, f"some += ({', '.join(parts)},)"])]
        some += [r"some.append(b'\0')", f"{of} = join(some)"]
        return [*self._checked(origin, of), f"if {of}:", *_indented(some), "else:", f"    {of} = b'\\0'"], [of]

    def _checked(self, kind: type[Any], of: str) -> Lines:
        return [f"if type({of}) is not {self.bind(kind)}:", "    return careful(value)"]
