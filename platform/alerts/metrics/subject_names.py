"""Names of subjects for users: a label is stored once and shown in any language."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Final

from django.conf import settings
from django.db.models import Case, F, Q, TextField, Value, When
from django.db.models.functions import Concat, Left, Length
from django.utils import translation

from foundation.core.quantities import Resource
from quotas.texts.amounts import resource_label

QUOTA_METRIC: Final = "quota.reserved_percent"
"""The only metric whose labels name a resource."""
_BETWEEN: Final = ", "


def make_quota_label(tenant: str, pool: str, resource: Resource) -> str:
    """Return the label of a quota, with the English name of its resource."""
    with translation.override("en"):
        return _BETWEEN.join((tenant, pool, resource_label(resource)))


def name_subject(metric: str, label: str) -> str:
    """Return the stored label of a metric's subject in the active language.

    Labels of older alerts on quota end with the key of a resource. Labels of other metrics are names that
    users chose, and stay as they are.
    """
    before, resource = _split_resource(label) if metric == QUOTA_METRIC else (label, None)
    return label if resource is None else f"{before}{_BETWEEN}{resource_label(resource)}"


def build_shown_label(column: str) -> Case:
    """Build the SQL expression of `name_subject` for rows with a `metric` and labels in a column."""
    translated = [
        When(
            **{f"{column}__endswith": f"{_BETWEEN}{stored}"},
            then=Concat(
                Left(column, Length(column) - len(stored)),
                Value(resource_label(resource)),
                output_field=TextField(),
            ),
        )
        for stored, resource in _read_resource_names().items()
    ]
    given = When(~Q(metric=QUOTA_METRIC), then=F(column))
    return Case(given, *translated, default=F(column), output_field=TextField())


def is_same_subject(metric: str, typed: str, label: str) -> bool:
    """Return whether a text is the label of a metric's subject; a quota's resource may be in any language."""
    return typed == label or (metric == QUOTA_METRIC and _split_resource(typed) == _split_resource(label))


def _split_resource(label: str) -> tuple[str, Resource | None]:
    """Split a label into the text before the resource that it ends with, and the resource, if any."""
    before, _between, last = label.rpartition(_BETWEEN)
    resource = _read_resource_names().get(last) if before else None
    return (label, None) if resource is None else (before, resource)


@cache
def _read_resource_names() -> Mapping[str, Resource]:
    """Return the resources by their keys and by their names in each language."""
    found = {str(resource): resource for resource in Resource}
    for language, _name in settings.LANGUAGES:
        with translation.override(language):
            found |= {resource_label(resource): resource for resource in Resource}
    return found
