"""Builds the REST schema of the job file from the declaration of its fields."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from rest_framework import serializers

from scheduling.job_file.declaration.describing import describe_field, field_default
from scheduling.job_file.declaration.environment import Variables
from scheduling.job_file.declaration.field import Field
from scheduling.job_file.declaration.fields import ALL, FIELDS, fields_below
from scheduling.job_file.values.kinds import (
    ChoiceKind,
    FieldKind,
    Flag,
    LabelsKind,
    NodeTerms,
    Number,
    PartKind,
    Parts,
    Percent,
    PodTerms,
    Text,
    Texts,
    Whole,
    Wholes,
)

_PLAIN: Final = (Whole, Number, Text)


def _wire_field(field: Field) -> Any:
    kind, options = field.kind, _options(field)
    match kind:
        case Parts():
            return _component(kind.name)(many=True, **options)
        case PartKind():
            return _component(kind.name)(**options)
        case Texts():
            child = serializers.CharField(max_length=kind.length, allow_blank=not kind.forms)
            return serializers.ListField(child=child, max_length=kind.most, **options)
        case Wholes():
            number = serializers.IntegerField(min_value=kind.low, max_value=kind.high)
            return serializers.ListField(child=number, max_length=kind.most, **options)
        case LabelsKind():
            return serializers.DictField(child=serializers.CharField(allow_blank=True), **options)
        case Variables() | NodeTerms() | PodTerms():
            return serializers.DictField(child=serializers.JSONField(), **options)
    return _scalar(kind, options)


def _scalar(kind: FieldKind, options: dict[str, Any]) -> Any:
    match kind:
        case Whole():
            return serializers.IntegerField(min_value=kind.low, max_value=kind.high, **options)
        case Percent():
            return serializers.IntegerField(min_value=1, max_value=100, **options)
        case Number():
            return serializers.FloatField(min_value=kind.low, max_value=kind.high, **options)
        case Flag():
            return serializers.BooleanField(**options)
        case ChoiceKind():
            names = list(zip(kind.among, kind.labels or kind.among, strict=True))
            return serializers.ChoiceField(choices=names, **options)
        case Text():
            return serializers.CharField(max_length=kind.limit, allow_blank=not kind.forms, **options)
    return serializers.CharField(**options)


def _options(field: Field) -> dict[str, Any]:
    """Return the options of a serializer field: whether it is required, its default and its help."""
    options: dict[str, Any] = {"help_text": describe_field(field)} if describe_field(field) else {}
    if field.default is not None:
        return options | {"default": field_default(field)}
    options["required"] = bool(field.required)
    if not field.required and isinstance(field.kind, _PLAIN):
        options["allow_null"] = True
    return options


_PATHS: Final = {field.kind.name: field.path for field in reversed(ALL) if isinstance(field.kind, PartKind)}
"""The path of the first mapping of each component; mappings with the same name have the same fields."""


@cache
def _component(name: str) -> type[serializers.Serializer[Any]]:
    kind = FIELDS[_PATHS[name]].kind
    one_of = kind.one_of if isinstance(kind, PartKind) else ()
    said = f"Exactly one of {', '.join(f'`{key}`' for key in one_of)}." if one_of else ""
    return _serializer(name, _PATHS[name], said)


def _serializer(name: str, path: str, about: str) -> type[serializers.Serializer[Any]]:
    fields = {field.key: _wire_field(field) for field in fields_below(path)}
    return type(f"{name}FileSerializer", (serializers.Serializer,), {"__doc__": about, **fields})


JobFileSerializer: Final = _serializer("Job", "", "A job to submit.")
