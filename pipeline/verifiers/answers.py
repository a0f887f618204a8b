"""Final answers in texts: where they are marked, and which number they are. Numbers are compared exactly."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Final

MOST_DIGITS: Final = 400
"""A longer number is no answer; an exact comparison of it could take minutes."""
LOOK_BACK: Final = 40

_MINUS = str.maketrans(dict.fromkeys("−–﹣－", "-"))
_SPACED_THOUSANDS = re.compile(r"(?<=\d)(?:\{,\}|\\[,! ;:]|[\u00a0\u2009\u202f])+(?=,?\d{3}(?!\d))")
_DIGITS = r"(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+"
_NUMBER = re.compile(
    rf"(?P<sign>[-+] ?)?(?:\\?\$ ?)?(?P<inner>[-+])?(?P<digits>{_DIGITS})(?P<exponent>[eE][-+]?\d{{1,3}}(?!\w))?"
)
_FRACTION = re.compile(
    r"(?P<sign>[-+]?) ?(?:\\[dt]?frac\{(?P<over>[-+]?\d+)\}\{(?P<under>[-+]?\d+)\}|(?P<a>\d+) ?/ ?(?P<b>\d+))\Z"
)
_WRAPPED = re.compile(r"\\(?:text|mathrm|mathbf)\{([^{}]*)\}|\$")
_HASHES = re.compile(r"####[ \t]*([^\n]*)")
_PHRASE = re.compile(r"\banswer(?:\s+is|\s*[:=])+\s*(.+?)(?:[.,;!?](?=\s|\Z)|\n|\Z)", re.IGNORECASE)
_BRACES = re.compile(r"\\(?:boxed|fbox)\s*\{|[{}]")


def plain(text: str) -> str:
    """The text with every minus as `-`, and no marks between the thousands of a number but commas."""
    return _SPACED_THOUSANDS.sub("", text.translate(_MINUS))


def marked(text: str) -> str | None:
    r"""What follows the last `####`, or stands in the last `\boxed{…}`, whichever is later; else what an `answer is`
    announces. What comes after an answer doesn't unmark it."""
    found = [(m.start(), m[1].strip()) for m in _HASHES.finditer(text)]
    found += [(at, content) for at, content in _boxes(text)]
    if found:
        return max(found)[1]
    phrases = _PHRASE.findall(text)
    return phrases[-1].strip() if phrases else None


def final_number(text: str) -> str | None:
    """The number that a text gives as its answer, as it is written: all of it, the marked one, or else the last one."""
    text = plain(text)
    if value(text) is not None:
        return text.strip()
    answer = marked(text)
    if answer is None:
        numbers = _numbers(text)
        return numbers[-1] if numbers else None
    content = re.sub(
        r"\\(?:text|mathrm|mathbf)\{([^{}]*)\}|\$", lambda m: m[1] or "", answer.rpartition("=")[2]
    ).strip()
    if value(content) is not None:
        return content
    numbers = _numbers(content)
    return numbers[0] if numbers else None


def value(number: str) -> Fraction | None:
    """The exact value of a number, or of a fraction; None if it is neither."""
    number = plain(number).strip().rstrip("%").rstrip(".").strip()
    if len(number) > MOST_DIGITS:
        return None
    if fraction := _FRACTION.match(number):
        over, under = int(fraction["over"] or fraction["a"]), int(fraction["under"] or fraction["b"])
        return None if under == 0 else Fraction(over, under) * (-1 if fraction["sign"] == "-" else 1)
    found = _NUMBER.fullmatch(number)
    if found is None or (found["sign"] and found["inner"]):
        return None
    sign = -1 if "-" in ((found["sign"] or "") + (found["inner"] or "")) else 1
    return sign * Fraction(found["digits"].replace(",", "") + (found["exponent"] or ""))


def same_number(one: str | None, other: str | None) -> bool:
    """Whether both are numbers, and equal."""
    values = [value(text) for text in (one, other) if text is not None]
    return len(values) == 2 and values[0] is not None and values[0] == values[1]


def _boxes(text: str) -> list[tuple[int, str]]:
    """Where each box begins, and all that is in it; one that is never closed is none. One pass, however deep."""
    found, opened = [], list[tuple[int, int] | None]()
    for match in _BRACES.finditer(text):
        if match[0] == "}":
            box = opened.pop() if opened else None
            if box is not None:
                found.append((box[0], text[box[1] : match.start()].strip()))
        else:
            opened.append((match.start(), match.end()) if match[0] != "{" else None)
    return found


def _numbers(text: str) -> list[str]:
    """Every number of a text with its sign. A dash is a sign if what stands before it doesn't make it a minus between
    two terms, the dash of a word, or that of a list."""
    found = []
    for match in _NUMBER.finditer(text):
        before = text[max(match.start() - LOOK_BACK, 0) : match.start()]
        if before and (before[-1].isalpha() or before[-1] == "_") and not match["sign"]:
            continue
        written = match["digits"] + (match["exponent"] or "")
        negative = match["inner"] == "-" or ("-" in (match["sign"] or "") and _is_sign(before, match["sign"]))
        found.append(f"-{written}" if negative else written)
    return found


def _is_sign(before: str, sign: str) -> bool:
    touching, last = before[-1:], before.rstrip()[-1:]
    if len(sign) > 1:  # a space follows
        return bool(last) and last in "=:([{"
    return not (touching.isalnum() or last.isdigit() or (last != "" and last in ")]}%"))
