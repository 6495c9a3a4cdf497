"""Creates, changes and retires priority classes; platform admins may do so."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.identifiers import is_dns_label
from foundation.sql.versions import advance_version
from scheduling.models import PriorityClass
from tenants.access import permissions
from tenants.access.permissions import Permission

DEFAULT: Final = "normal"
"""The class of jobs whose file names none."""
VALUE_MAX: Final = 1_000_000


@transaction.atomic
def priority_class_create(
    *, acting_user: Actor, name: str, value: int, description: str = ""
) -> PriorityClass:
    """Create a class. A tenant needs a grant to use a class with a value above 0.

    Raises: PermissionDenied; Invalid for the name or the value; Conflict when the name is taken.
    """
    permissions.require_permission(acting_user, Permission.QUEUE_EDIT)
    if not is_dns_label(name):
        message = _("Use lowercase letters, digits and hyphens, for example train-1.")
        raise Invalid(message, errors=[FieldError("name", "FORMAT", message)])
    made = PriorityClass(name=name, value=_value(value), description=description)
    try:
        with transaction.atomic():
            made.save(force_insert=True)
    except IntegrityError as error:
        message = _("Priority class %(name)s already exists.") % {"name": name}
        errors = [FieldError("name", "NAME_TAKEN", message)]
        raise Conflict(message, code="NAME_TAKEN", errors=errors) from error
    _note(acting_user, "create", made, None)
    return made


@transaction.atomic
def priority_class_update(
    *,
    acting_user: Actor,
    priority_class: PriorityClass,
    value: int | None = None,
    description: str | None = None,
    retired: bool | None = None,
    expected: int | None = None,
) -> PriorityClass:
    """Change a class; fields that are None stay. Jobs keep the value that they were submitted with.

    A retired class accepts no new jobs, but keeps its grants in case it is enabled again.
    Raises: PermissionDenied; Invalid; PreconditionFailed; Conflict for retiring the default class.
    """
    permissions.require_permission(acting_user, Permission.QUEUE_EDIT)
    before = _described(priority_class)
    advance_version(priority_class, expected=expected)
    if value is not None:
        priority_class.value = _value(value)
    if description is not None:
        priority_class.description = description
    if retired is not None:
        priority_class.retired_at = _retirement(priority_class, retired)
    priority_class.save(update_fields=["value", "description", "retired_at"])
    _note(acting_user, "update", priority_class, before)
    return priority_class


def _value(value: int) -> int:
    if abs(value) > VALUE_MAX:
        message = _("Must be from %(low)s to %(high)s.") % {"low": -VALUE_MAX, "high": VALUE_MAX}
        raise Invalid(message, errors=[FieldError("value", "RANGE", message)])
    return value


def _retirement(priority_class: PriorityClass, retired: bool) -> datetime | None:
    if retired and priority_class.name == DEFAULT:
        message = _("The default priority class can't be disabled.")
        raise Conflict(message, code="CLASS_NEEDED", errors=[FieldError("retired", "NEEDED", message)])
    return (priority_class.retired_at or clock.now()) if retired else None


def _described(found: PriorityClass) -> dict[str, Any]:
    return {
        "name": found.name,
        "value": found.value,
        "description": found.description,
        "retired": found.retired_at is not None,
    }


def _note(actor: Actor, verb: str, found: PriorityClass, before: dict[str, Any] | None) -> None:
    audit_log.record_action(
        actor,
        f"priority-class.{verb}",
        entity="priority-class",
        entity_id=found.pk,
        before=before,
        after=_described(found),
    )
