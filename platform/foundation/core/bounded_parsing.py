"""Reads YAML or JSON texts from outside within bounds.

A few kilobytes can exhaust a parser's stack, expand to gigabytes or occupy a process for minutes. Everything
is counted before it is built: bytes, levels, values, keys of one mapping, and characters of one value and of
one number. Aliases, anchors, tags and directives of YAML are refused: no file of the platform needs them.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import yaml
from django.utils.translation import gettext as _

DEEPEST: Final = 32
"""The most levels of nested mappings and lists."""
DIGITS_MAX: Final = 64
# libyaml, which every wheel of PyYAML contains. The parser in Python takes seconds where this one takes 0.2
# s, so it is not used as a fallback.
_Parser: Final[Any] = yaml.CSafeLoader
_DIRECTIVE: Final = re.compile("(?:^|[\n\r\x85\u2028\u2029])%")
_CONTAINERS: Final = (yaml.MappingStartEvent, yaml.SequenceStartEvent)
# YAML 1.1 as PyYAML reads it, without `on`, `yes`, dates, merges and numbers in base 60.
_BOOLEANS: Final = {"true": True, "True": True, "false": False, "False": False}
_NULLS: Final = frozenset({"", "~", "null", "Null", "NULL"})
_INTEGER: Final = re.compile(r"[-+]?(?:0b[01_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)")
_FLOAT: Final = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?")
_SPECIAL: Final = {".inf": "inf", "+.inf": "inf", "-.inf": "-inf", ".nan": "nan"}
# These patterns cannot backtrack: a text without its closing mark ends with the body.
_JSON_TEXT: Final = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
_JSON_NUMBER: Final = re.compile(rf"[-+.eE0-9]{{{DIGITS_MAX + 1}}}")


@dataclass(frozen=True, slots=True)
class ParseBounds:
    """The limits of a text: `nodes` counts its values, `keys` those of one mapping."""

    size: int
    """The most bytes."""
    nodes: int = 50_000
    depth: int = DEEPEST
    keys: int = 1_000
    text: int = 2**21
    """The most characters of one value, and of one key."""


class TextError(ValueError):
    """A text is invalid. `line` counts from 1, and is 0 for an error on no line; `key` is "" for no key."""

    def __init__(self, message: str, *, code: str = "SYNTAX", line: int = 0, key: str = "") -> None:
        super().__init__(message)
        self.message, self.code, self.line, self.key = message, code, line, key[:60]


class Scalar(NamedTuple):
    """One value as written, and its place; `plain` if it has no quotes."""

    text: str
    plain: bool
    line: int
    start: int = 0
    end: int = 0

    @property
    def is_null(self) -> bool:
        """Return whether the node is a null."""
        return self.plain and self.text in _NULLS


@dataclass(slots=True)
class Listing:
    """A list of a YAML text; `flow` if in brackets. A list without brackets ends with its last value."""

    line: int
    start: int = 0
    end: int = 0
    flow: bool = False
    values: list[Node] = field(default_factory=list)


@dataclass(slots=True)
class YamlMapping:
    """A mapping of a YAML text, in its order, possibly with duplicate keys; `flow` if in braces."""

    line: int
    start: int = 0
    end: int = 0
    flow: bool = False
    entries: list[tuple[Scalar, Node]] = field(default_factory=list)
    key: Scalar | None = None


Node = Scalar | Listing | YamlMapping


def read_yaml(content: str | bytes, bounds: ParseBounds) -> Node | None:
    """Return the one document of a YAML text as nodes with their lines; None for an empty text.

    Raises: TextError.
    """
    text = _decoded(content, bounds)
    if found := _DIRECTIVE.search(text):
        line = text.count("\n", 0, found.end()) + 1
        raise TextError(_("Directives such as %%YAML aren't allowed.") % (), line=line)
    builder = _Builder(bounds)
    try:
        for event in yaml.parse(text, Loader=_Parser):
            builder.add_event(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        problem = error.problem or error.context or type(error).__name__
        line = mark.line + 1 if mark else 0
        if "maximum nesting depth" in problem:  # libyaml 0.2.6 reads ahead and reaches its own limit first
            raise _too_deep(bounds, line) from error
        raise TextError(problem, line=line) from error
    except (yaml.YAMLError, UnicodeEncodeError) as error:
        raise TextError(" ".join(str(error).split())) from error
    return builder.root


def load_yaml(content: str | bytes, bounds: ParseBounds) -> Any:
    """Return the one document of a YAML text as plain values; the keys of mappings are text as written.

    Raises: TextError, also for a duplicate key.
    """
    node = read_yaml(content, bounds)
    return None if node is None else plain_value(node)


def load_json(content: str | bytes, bounds: ParseBounds) -> Any:
    """Return a JSON text as plain values; constants that are not in JSON are refused.

    Raises: TextError.
    """
    text = _decoded(content, bounds)
    skeleton = _JSON_TEXT.sub('""', text)
    if _is_deeper(skeleton, bounds.depth):
        raise _too_deep(bounds)
    if sum(map(skeleton.count, ",[{")) > bounds.nodes:
        raise _too_many(bounds)
    if _JSON_NUMBER.search(skeleton):
        raise _long_number()
    try:
        value = json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise TextError(str(error)) from error
    _check_built(value, bounds, has_long_text=len(text) > bounds.text)
    return value


class _Builder:
    """Builds nodes from events. The events come one by one, so nothing beyond the bounds is ever parsed."""

    def __init__(self, bounds: ParseBounds) -> None:
        self.root: Node | None = None
        self._bounds = bounds
        self._open: list[Listing | YamlMapping] = []
        self._nodes = self._documents = 0

    def add_event(self, event: Any) -> None:
        """Add one event. Raises: TextError."""
        line = event.start_mark.line + 1
        if isinstance(event, yaml.ScalarEvent):
            self._check(event, line)
            self._add(self._scalar(event, line))
        elif isinstance(event, _CONTAINERS):
            self._check(event, line)
            if len(self._open) == self._bounds.depth:
                raise _too_deep(self._bounds, line)
            shape = YamlMapping if isinstance(event, yaml.MappingStartEvent) else Listing
            node = shape(line, _place(event.start_mark), flow=bool(event.flow_style))
            self._add(node)
            self._open.append(node)
        elif isinstance(event, yaml.CollectionEndEvent):
            self._open.pop().end = _place(event.end_mark)
        elif isinstance(event, yaml.AliasEvent):
            raise TextError(_("Aliases aren't allowed."), line=line, key=self._key())
        elif isinstance(event, yaml.DocumentStartEvent):
            self._documents += 1
            if self._documents > 1:
                raise TextError(_("More than one document found."), line=line)

    def _check(self, event: Any, line: int) -> None:
        self._nodes += 1
        if self._nodes > self._bounds.nodes:
            raise _too_many(self._bounds, line)
        if event.anchor is not None:
            raise TextError(_("Anchors aren't allowed."), line=line, key=self._key())
        if event.tag is not None:
            raise TextError(_("Tags such as !!str aren't allowed."), line=line, key=self._key())

    def _key(self) -> str:
        """Return the key whose value is being read."""
        keys = (one.key.text for one in reversed(self._open) if isinstance(one, YamlMapping) and one.key)
        return next(keys, "")

    def _scalar(self, event: Any, line: int) -> Scalar:
        if len(event.value) > self._bounds.text:
            raise _too_long(self._bounds, line)
        plain = event.style is None or event.style == ""
        return Scalar(event.value, plain, line, event.start_mark.index, event.end_mark.index)

    def _add(self, node: Node) -> None:
        if not self._open:
            self.root = node
            return
        above = self._open[-1]
        if isinstance(above, Listing):
            above.values.append(node)
        elif above.key is not None:
            above.entries.append((above.key, node))
            above.key = None
            if len(above.entries) > self._bounds.keys:
                raise _too_many_keys(self._bounds, node.line)
        elif isinstance(node, Scalar):
            above.key = node
        else:
            raise TextError(_("Keys must be single values."), line=node.line)


def _place(mark: Any) -> int:
    return int(mark.index)


def plain_value(node: Node) -> Any:
    """Return the plain value of a node. Raises: TextError for a duplicate key."""
    if isinstance(node, Scalar):
        return _value(node)
    if isinstance(node, Listing):
        return [plain_value(item) for item in node.values]
    found: dict[str, Any] = {}
    for key, value in node.entries:
        if key.text in found:
            raise TextError(_("Duplicate key %(key)s.") % {"key": key.text[:60]}, line=key.line)
        found[key.text] = plain_value(value)
    return found


def _value(scalar: Scalar) -> Any:
    text = scalar.text
    if not scalar.plain:
        return text
    if text in _NULLS:
        return None
    if text in _BOOLEANS:
        return _BOOLEANS[text]
    if text.lower() in _SPECIAL:
        return float(_SPECIAL[text.lower()])
    if text[0] not in "-+.0123456789":
        return text
    return _number(scalar)


def _number(scalar: Scalar) -> int | float | str:
    """Return the number that a plain text represents, or else the text."""
    text = scalar.text
    whole = _INTEGER.fullmatch(text)
    if not whole and not _FLOAT.fullmatch(text):
        return text
    if len(text) > DIGITS_MAX:
        raise _long_number(scalar.line)
    digits = text.replace("_", "").lower()
    head = digits.lstrip("-+")
    base = {"0b": 2, "0x": 16}.get(head[:2], 8 if head.startswith("0") else 10)
    try:
        return int(digits, base) if whole else float(digits)
    except ValueError:
        return text


def _decoded(content: str | bytes, bounds: ParseBounds) -> str:
    # A text has at least as many bytes as characters, so encoding it is bounded as well.
    if len(content) > bounds.size or (
        isinstance(content, str) and len(content.encode("utf-8", "surrogatepass")) > bounds.size
    ):
        message = _("The file exceeds %(limit)s KiB.") % {"limit": bounds.size // 1024}
        raise TextError(message, code="TOO_LARGE")
    if isinstance(content, str):
        return content.removeprefix("\ufeff")
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise TextError(_("The file isn't UTF-8 text."), code="ENCODING") from error


def _is_deeper(skeleton: str, limit: int) -> bool:
    depth = 0
    for char in re.sub(r"[^\[\]{}]+", "", skeleton):
        depth += 1 if char in "[{" else -1
        if depth > limit:
            return True
    return False


def _check_built(value: Any, bounds: ParseBounds, *, has_long_text: bool) -> None:
    """Check limits that only the built values show; `has_long_text`: one value may be too long. Raises:
    TextError.
    """
    waiting = [value]
    while waiting:
        item = waiting.pop()
        kind = type(item)
        if kind is dict:
            if len(item) > bounds.keys:
                raise _too_many_keys(bounds)
            waiting.extend(item.values())
            if has_long_text:
                waiting.extend(item)
        elif kind is list:
            waiting.extend(item)
        elif kind is str and len(item) > bounds.text:
            raise _too_long(bounds)


def _no_constant(name: str) -> None:
    raise ValueError(_("%(name)s isn't valid JSON.") % {"name": name})


def _too_deep(bounds: ParseBounds, line: int = 0) -> TextError:
    message = _("Nesting exceeds %(limit)s levels.") % {"limit": bounds.depth}
    return TextError(message, code="TOO_DEEP", line=line)


def _too_many(bounds: ParseBounds, line: int = 0) -> TextError:
    message = _("The file exceeds %(limit)s values.") % {"limit": bounds.nodes}
    return TextError(message, code="TOO_MANY", line=line)


def _too_many_keys(bounds: ParseBounds, line: int = 0) -> TextError:
    message = _("A map exceeds %(limit)s keys.") % {"limit": bounds.keys}
    return TextError(message, code="TOO_MANY", line=line)


def _too_long(bounds: ParseBounds, line: int = 0) -> TextError:
    message = _("A value exceeds %(limit)s characters.") % {"limit": bounds.text}
    return TextError(message, code="TOO_LONG", line=line)


def _long_number(line: int = 0) -> TextError:
    message = _("A number exceeds %(limit)s digits.") % {"limit": DIGITS_MAX}
    return TextError(message, code="TOO_LONG", line=line)
