"""The contents of all tables of the platform."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from django.apps import apps
from django.db import connection

from foundation.audit.audit_log import DENIED
from foundation.models import AuditRecord
from tenants.access.row_policies import OWN_APPS

OF_REFUSALS: Final = frozenset({"foundation_auditrecord", "django_session"})
"""Tables of refusals; a new row there is no change."""


def contents() -> dict[str, list[Any]]:
    """Return all rows by model, without the records of denials."""
    found: dict[str, list[Any]] = {}
    with connection.cursor() as cursor:
        for label, sql, values in _selections(connection.vendor):
            cursor.execute(sql, values)
            found[label] = cursor.fetchall()
    return found


@cache
def _selections(_vendor: str) -> list[tuple[str, str, tuple[Any, ...]]]:
    """Return a statement for each model, which takes Django ten times as long to build as to execute."""
    found = []
    for model in apps.get_models():
        if model._meta.app_label in OWN_APPS:
            rows = model._base_manager.order_by("pk")
            if model is AuditRecord:
                rows = rows.exclude(result=DENIED)
            found.append((model._meta.label, *rows.values_list().query.sql_with_params()))
    return found
