"""Texts that try to exhaust their reader: YAML, JSON and CSV of the largest size that is accepted.

A kind is a shape (what is repeated, around what), its place in a file, its notation and its size. `kinds()`
numbers them all, so that a run can select any of them and name the one that failed.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import product
from typing import Final, NamedTuple

SIZE: Final = 256 * 1024
_PIECES: Final = (
    "[", "{", "(", "]", "}", "- ", "? ", ": ", ":", ",", "a,", "[],", "{},", "a: ", "a:\n", "- a\n",
    "-\n", "#\n", "# c\n", "\n", "\r", "\r\n", " ", "\t", "'", "\"", "\"\"", "''", "\\", "\\n", "\\\"",
    "\\\\", "&a ", "*a ", "!a ", "!!str ", "!<x> ", "%TAG !a! b\n", "%YAML 1.2\n", "%", "---\n", "...\n",
    "--- a\n...\n", "|\n", ">\n", ">-\n \n", "<<: {}\n", "0", "9", "1_", "0x", "1:", "1:1", "-", "+",
    ".", ".5", "1e", "e9", "null", "~", "true,", "\xe9", "\u2028", "\x85", "\ufeff", "\U0001f600",
    "\ud800", "\x00", "\x07", "a", "a ", "a\n", " a\n", "@", "`", "a.b.", "[{", "{\"a\":", "[[\"",
    "\ufffe", "&a [*a, ", "- &a\n", "=", "\u202e",
)  # fmt: skip
_AROUND: Final = (
    ("", ""), ("a: ", ""), ("a: [", "]"), ("a: {b: ", "}"), ('a: "', '"'), ("a: '", "'"), ("a: |\n ", "\n"),
    ("quotas:\n  - tenant: t\n    quotas:\n      - {flavor: ", "}"), ("{", ": b}"), ("? ", "\n: b"),
    ('{"roles": [', "]}"), ('{"a": "', '"}'), ("tenant,flavor,resource,nominal\n", ""),
)  # fmt: skip


class Kind(NamedTuple):
    """A text that is made when it is needed."""

    number: int
    name: str
    make: Callable[[], str]


def kinds() -> Iterator[Kind]:
    """Yield every kind, always in the same order: more than ten thousand."""
    ways: tuple[Callable[[str, str, int], str], ...] = (_same, _numbered, _deeper, _mixed)
    sizes = (SIZE, SIZE // 16, 2 * SIZE)
    every = product(enumerate(_PIECES), enumerate(_AROUND), ways, sizes)
    for number, ((p, piece), (a, around), way, size) in enumerate(every):
        name = f"{way.__name__} {piece!r} in {around[0]!r}, {size} bytes"

        def make(
            piece: str = piece,
            around: tuple[str, str] = around,
            way: Callable[[str, str, int], str] = way,
            size: int = size,
            seed: int = p * 1000 + a,
        ) -> str:
            inner = way(piece, str(seed), size - len(around[0]) - len(around[1]))
            return _cut(around[0] + inner + around[1], size)

        yield Kind(number, name, make)


def _same(piece: str, _seed: str, size: int) -> str:
    return piece * max(1, size // len(piece.encode("utf-8", "surrogatepass")))


def _numbered(piece: str, _seed: str, size: int) -> str:
    """Repeat the piece with a number, so that comparing each with all before it would cost the square."""
    width = len(piece.encode("utf-8", "surrogatepass")) + 6
    return "".join(f"{piece}k{number} " for number in range(size // width))


def _deeper(piece: str, _seed: str, size: int) -> str:
    """Indent each line more than the one before."""
    lines, length, indent = [], 0, 0
    while length < size and indent < 700:
        lines.append(" " * indent + piece + ("" if piece.endswith("\n") else "\n"))
        length += len(lines[-1])
        indent += 1
    return "".join(lines)


def _mixed(piece: str, seed: str, size: int) -> str:
    """Mix the piece with all others, at random."""
    chance = random.Random(seed + piece.encode("utf-8", "surrogatepass").hex())
    found, length = [], 0
    while length < size:
        part = piece if chance.random() < 0.5 else chance.choice(_PIECES)
        times = chance.choice((1, 1, 2, 40))
        found.append(part * times)
        length += len(part) * times
    return "".join(found)


def _cut(text: str, size: int) -> str:
    """Return at most so many bytes; half a character at the end is removed, half a pair is kept."""
    found = text.encode("utf-8", "surrogatepass")[:size]
    while found and found[-1] >= 0x80 and not _whole(found):
        found = found[:-1]
    return found.decode("utf-8", "surrogatepass")


def _whole(text: bytes) -> bool:
    try:
        text.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        return False
    return True
