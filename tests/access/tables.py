"""The contents of all tables of the platform."""

from __future__ import annotations

from typing import Any, Final

from django.apps import apps

from foundation.audit.audit_log import DENIED
from foundation.models import AuditRecord
from tenants.access.row_policies import OWN_APPS

OF_REFUSALS: Final = frozenset({"foundation_auditrecord", "django_session"})
"""Tables of refusals; a new row there is no change."""


def contents() -> dict[str, list[Any]]:
    """Return all rows by model, without the records of denials."""
    found: dict[str, list[Any]] = {}
    for model in apps.get_models():
        if model._meta.app_label in OWN_APPS:
            rows = model._base_manager.order_by("pk")
            if model is AuditRecord:
                rows = rows.exclude(result=DENIED)
            found[model._meta.label] = list(rows.values_list())
    return found
