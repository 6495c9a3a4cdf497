"""Changes a YAML text so that unchanged lines keep their comments and layout.

Texts are changed at the positions that libyaml reports. Libraries that read a file and write it again, such
as ruamel.yaml, change the layout of the whole file (indents, spaces, quotes, empty lines), and their parser
in Python takes seconds for a file that libyaml reads in 0.3 s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import yaml

from foundation.core.bounded_parsing import (
    Listing,
    Node,
    ParseBounds,
    Scalar,
    TextError,
    YamlMapping,
    load_yaml,
    plain_value,
    read_yaml,
)

_WIDE: Final = 10**9
_ALL_BREAKS: Final = re.compile(r"[|>][0-9]?\+")


class _Change(NamedTuple):
    """A range of characters of a text and its replacement."""

    start: int
    end: int
    text: str


def change_yaml(text: str, target: Mapping[str, Any], bounds: ParseBounds) -> str:
    """Return the YAML text of a mapping, changed where its values differ from `target`.

    New keys are placed by their order in `target`.

    Raises: TextError for an invalid text, or for a layout that does not allow the change.
    """
    text = text.removeprefix("\ufeff")
    root = read_yaml(text, bounds)
    if root is None or (isinstance(root, Scalar) and root.is_null):
        return text + ("" if not text or text.endswith("\n") else "\n") + block_text(target)
    parts, place = [], 0
    for change in sorted(_changes(text, root, target), key=lambda one: (one.start, one.end)):
        if change.start < place:
            raise TextError("")
        parts += [text[place : change.start], change.text]
        place = change.end
    changed = "".join([*parts, text[place:]])
    if not same_values(load_yaml(changed, bounds), target):
        raise TextError("")
    return changed


def same_values(first: Any, second: Any) -> bool:
    """Return whether two plain values are equal, and of equal types at every depth."""
    if isinstance(first, Mapping) and isinstance(second, Mapping):
        return first.keys() == second.keys() and all(same_values(first[key], second[key]) for key in first)
    if isinstance(first, list | tuple) and isinstance(second, list | tuple):
        return len(first) == len(second) and all(map(same_values, first, second))
    return type(first) is type(second) and (first == second or first != first)  # not a number


def block_text(value: Any) -> str:
    """Return a value as YAML over several lines."""
    text: str = yaml.safe_dump(value, sort_keys=False, allow_unicode=True, width=_WIDE)
    return text


def _flow_text(value: Any) -> str:
    """Return a value as YAML in one line, valid inside braces and brackets too."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{_flow_text(key)}: {_flow_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_flow_text, value)) + "]"
    style = '"' if isinstance(value, str) and not value.isprintable() else None
    text: str = yaml.safe_dump(
        [value], default_flow_style=True, default_style=style, allow_unicode=True, width=_WIDE
    )
    return text.strip().removeprefix("[").removesuffix("]")


def _changes(text: str, node: Node, target: Any) -> Iterator[_Change]:
    """Yield the changes that give a node without a key the value `target`."""
    if same_values(plain_value(node), target):
        return
    if isinstance(node, YamlMapping) and isinstance(target, Mapping) and target and node.entries:
        yield from (_flow_mapping if node.flow else _block_mapping)(text, node, target)
    elif isinstance(node, Listing) and isinstance(target, list | tuple) and target and node.values:
        yield from (_flow_list if node.flow else _block_list)(text, node, target)
    else:
        yield _replaced(text, node, node.start, target)


def _replaced(text: str, node: Node, start: int, target: Any) -> _Change:
    end = _end(text, node)
    # After a key or a dash without a value there is no space before the new one.
    space = " " if start == end or start < node.start else ""
    return _Change(start, end, space + _flow_text(target) + ("\n" if text[start:end].endswith("\n") else ""))


def _value_changes(text: str, key: Scalar, node: Node, target: Any) -> Iterator[_Change]:
    """Yield the changes of the value of a key; a value of several lines that changes is replaced whole."""
    same_kind = (isinstance(node, YamlMapping) and isinstance(target, Mapping) and target) or (
        isinstance(node, Listing) and isinstance(target, list | tuple) and target
    )
    if same_kind or isinstance(node, Scalar) or node.flow:
        yield from _changes(text, node, target)
    else:
        yield _replaced(text, node, text.index(":", key.end) + 1, target)


def _end(text: str, node: Node) -> int:
    """Return the place after the last character of a node, before comments and empty lines below it."""
    if isinstance(node, YamlMapping) and not node.flow:
        return _end(text, node.entries[-1][1])
    if isinstance(node, Listing) and not node.flow:
        return _end(text, node.values[-1])
    if isinstance(node, Scalar) and node.plain is False and text[node.start] in "|>":
        written = text[node.start : node.end]
        return node.end if _ALL_BREAKS.match(written) else node.start + len(written.rstrip())
    return node.end


def _line_start(text: str, place: int) -> int:
    return text.rfind("\n", 0, place) + 1


def _line_end(text: str, place: int) -> int:
    """Return the place after the line of the character before `place`."""
    found = text.find("\n", max(place - 1, 0))
    return len(text) if found < 0 else found + 1


def _inserted(text: str, place: int, value: Any, column: int) -> _Change:
    """Return lines with a value, indented to a column, to insert after the line that ends at `place`."""
    lines = [" " * column + line if line else line for line in block_text(value).splitlines()]
    fresh = "" if place == 0 or text[place - 1] == "\n" else "\n"
    return _Change(place, place, fresh + "\n".join(lines) + "\n")


def _before_new(node: YamlMapping, target: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Yield each new key of `target` with the place of the entry after which it is written."""
    places = {key.text: place for place, (key, _value) in enumerate(node.entries)}
    last = 0
    for key in target:
        if key in places:
            last = places[key]
        else:
            yield last, key


def _block_mapping(text: str, node: YamlMapping, target: Mapping[str, Any]) -> Iterator[_Change]:
    column = node.start - _line_start(text, node.start)
    for key, value in node.entries:
        if key.text in target:
            yield from _value_changes(text, key, value, target[key.text])
            continue
        start, end = _line_start(text, key.start), _end(text, value)
        if text[start : key.start].strip():  # the dash of a list is kept for the next key
            yield _Change(key.start, end, "\n" if text[key.start : end].endswith("\n") else "")
        else:
            yield _Change(start, _line_end(text, end), "")
    for place, key_text in _before_new(node, target):
        end = _line_end(text, _end(text, node.entries[place][1]))
        yield _inserted(text, end, {key_text: target[key_text]}, column)


def _flow_mapping(text: str, node: YamlMapping, target: Mapping[str, Any]) -> Iterator[_Change]:
    spans = [(key.start, _end(text, value)) for key, value in node.entries]
    retained = [key.text in target for key, _value in node.entries]
    if not any(retained):
        yield _replaced(text, node, node.start, target)
        return
    yield from _flow_removed(spans, retained)
    for key, value in node.entries:
        if key.text in target:
            yield from _value_changes(text, key, value, target[key.text])
    for place, key_text in _before_new(node, target):
        end = spans[place][1] if retained[place] else spans[retained.index(True)][1]
        yield _Change(end, end, f", {_flow_text(key_text)}: {_flow_text(target[key_text])}")


def _flow_removed(spans: Sequence[tuple[int, int]], retained: Sequence[bool]) -> Iterator[_Change]:
    """Yield the removal of other values between braces or brackets, each with one comma."""
    first = retained.index(True)
    if first:
        yield _Change(spans[0][0], spans[first][0], "")
    for place in range(first + 1, len(spans)):
        if not retained[place]:
            yield _Change(spans[place - 1][1], spans[place][1], "")


def _aligned(node: Listing, target: Sequence[Any]) -> tuple[int, int]:
    """Return how many values are equal at either end; a value that differs, or the first, has none before."""
    old = [plain_value(value) for value in node.values]
    shortest = min(len(old), len(target))
    front = next((n for n in range(shortest) if not same_values(old[n], target[n])), shortest)
    back = next(
        (n for n in range(shortest - front) if not same_values(old[-1 - n], target[-1 - n])), shortest - front
    )
    if not front and back == len(old):
        back -= 1  # a new first value replaces the old one, which is written again
    return front, back


def _list_plan(
    node: Listing, target: Sequence[Any]
) -> tuple[list[tuple[Node, Any]], Sequence[int], int, Sequence[Any]]:
    """Return changed values, the places of removed ones, and new ones with the place before them."""
    front, back = _aligned(node, target)
    old, new = range(front, len(node.values) - back), target[front : len(target) - back]
    pairs = [(node.values[place], value) for place, value in zip(old, new, strict=False)]
    return pairs, old[len(new) :], front + min(len(old), len(new)) - 1, new[len(old) :]


def _block_list(text: str, node: Listing, target: Sequence[Any]) -> Iterator[_Change]:
    column = node.start - _line_start(text, node.start)
    pairs, removed, before, new = _list_plan(node, target)
    for value, wanted in pairs:
        yield from _changes(text, value, wanted)
    for place in removed:
        yield _Change(
            _line_start(text, _dash(text, node, place, column)),
            _line_end(text, _end(text, node.values[place])),
            "",
        )
    for value in new:
        yield _inserted(text, _line_end(text, _end(text, node.values[before])), [value], column)


def _dash(text: str, node: Listing, place: int, column: int) -> int:
    """Return the place of the dash before a value of a list."""
    if place == 0:
        return node.start
    begin, end = _end(text, node.values[place - 1]), node.values[place].start
    dashes = [found.end() for found in re.finditer(rf"(?m)^ {{{column}}}(?=-)", text[begin : end + 1])]
    if not dashes:
        raise TextError("")
    return begin + dashes[-1]


def _flow_list(text: str, node: Listing, target: Sequence[Any]) -> Iterator[_Change]:
    pairs, removed, before, new = _list_plan(node, target)
    spans = [(value.start, _end(text, value)) for value in node.values]
    retained = [place not in removed for place in range(len(spans))]
    if not any(retained):
        yield _replaced(text, node, node.start, target)
        return
    yield from _flow_removed(spans, retained)
    for value, wanted in pairs:
        yield from _changes(text, value, wanted)
    for value in new:
        yield _Change(spans[before][1], spans[before][1], f", {_flow_text(value)}")
