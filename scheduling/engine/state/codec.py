"""The codec turns model objects into JSON values and back by their type annotations.

A new field is serialised without further code, under its name or under the name that its metadata give as
`json`. The text is canonical (sorted keys, no spaces), so equal objects give equal bytes.
"""

from __future__ import annotations

import json
import types
from collections.abc import Callable, Mapping
from dataclasses import Field, fields, is_dataclass
from enum import Enum
from functools import cache
from typing import Any, Final, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")
# Fields of snapshots that earlier versions saved. An empty one, or one of the value `none`, carries no
# information and is ignored.
RETIRED: Final[Mapping[str, frozenset[str]]] = {
    "Allocation": frozenset({"domains", "each", "measured_memory", "zones"}),
    "Device": frozenset({"clique", "numa"}),
    "Flavor": frozenset({"apart", "counted"}),
    "Job": frozenset({"broken_since", "lost_nodes", "replaces", "stale_grace_s", "unplaced"}),
    "Node": frozenset({"images", "numa", "numa_policy", "ports"}),
    "PlacementRules": frozenset({"image", "last_nodes", "ports"}),
    "Queue": frozenset({"on_order"}),
    "Request": frozenset({"footprint"}),
    "TopologyRule": frozenset({"layers"}),
}
Decoder = Callable[[Any], Any]


class CodecError(ValueError):
    """A value does not have the shape that its type demands."""


def encode(value: Any) -> Any:
    """Return a model object as dicts, lists, strings, numbers and None.

    Raises:
        CodecError: on a type that has no JSON form.
    """
    if isinstance(value, Enum):
        return value.value
    if value is None or isinstance(value, (str, int, float, bool)):
        return value
    if is_dataclass(value) and not isinstance(value, type):
        return {_key(item): encode(getattr(value, item.name)) for item in fields(value) if item.compare}
    if hasattr(value, "_fields"):
        return dict(zip(value._fields, map(encode, value), strict=True))
    if isinstance(value, Mapping):
        return {str(key): encode(entry) for key, entry in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(entry) for entry in value]
    raise CodecError(f"a {type(value).__name__} has no JSON form")


def decode(kind: type[T], value: Any) -> T:
    """Rebuild an object of `kind` from what `encode` made.

    Raises:
        CodecError: naming the type and the field when the value does not fit.
    """
    hashable: Any = kind
    result: T = _decoder(hashable)(value)
    return result


def to_canonical_json(value: Any) -> str:
    """Return the canonical JSON text of a value."""
    return json.dumps(encode(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False)


@cache
def _decoder(kind: Any) -> Decoder:
    kind = getattr(kind, "__supertype__", kind)
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, types.UnionType):
        return _union(arguments)
    if origin is tuple:
        return _tuple(arguments)
    if origin is not None and issubclass(origin, Mapping):
        entry = _decoder(arguments[1])
        return lambda value: {key: entry(item) for key, item in _checked(value, dict).items()}
    if is_dataclass(kind):
        return _object(kind, {_key(item): item.name for item in fields(kind) if item.init})
    if hasattr(kind, "_fields"):
        return _object(kind, {name: name for name in kind._fields})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return kind
    return _plain(kind)


def _union(arguments: tuple[Any, ...]) -> Decoder:
    present = [argument for argument in arguments if argument is not type(None)]
    if len(present) > 1:
        return _plain(tuple(present))
    inner = _decoder(present[0])
    return lambda value: None if value is None else inner(value)


def _tuple(arguments: tuple[Any, ...]) -> Decoder:
    if arguments[-1] is Ellipsis:
        inner = _decoder(arguments[0])
        return lambda value: tuple(inner(entry) for entry in _checked(value, list))
    decoders = [_decoder(argument) for argument in arguments]

    def build(value: Any) -> Any:
        if len(_checked(value, list)) != len(decoders):
            raise CodecError(f"{value!r} does not have {len(decoders)} entries")
        return tuple(decoder(entry) for decoder, entry in zip(decoders, value, strict=True))

    return build


def _plain(kind: Any) -> Decoder:
    accepted = (int, float) if kind is float else kind
    return lambda value: _checked(value, accepted)


def _object(kind: Any, names: Mapping[str, str]) -> Decoder:
    hints = get_type_hints(kind)
    decoders = {key: (name, _decoder(hints[name])) for key, name in names.items()}
    retired = RETIRED.get(kind.__name__, frozenset())

    def build(value: Any) -> Any:
        given = {}
        for key, entry in _checked(value, dict).items():
            if key in retired and (not entry or entry == "none"):
                continue
            if key not in decoders:
                raise CodecError(f"{kind.__name__} has no field {key!r}")
            name, decoder = decoders[key]
            try:
                given[name] = decoder(entry)
            except ValueError as error:
                raise CodecError(f"{kind.__name__}.{key}: {error}") from error
        try:
            return kind(**given)
        except TypeError as error:
            raise CodecError(f"{kind.__name__}: {error}") from error

    return build


def _key(item: Field[Any]) -> str:
    key: str = item.metadata.get("json", item.name)
    return key


def _checked(value: Any, kind: Any) -> Any:
    if isinstance(value, bool) and kind is not bool:
        raise CodecError(f"{value!r} is not a number")
    if not isinstance(value, kind):
        raise CodecError(f"{value!r} has the wrong type")
    return value
