"""Saves, changes and deletes job templates; users who may submit jobs in a workspace may do so."""

from __future__ import annotations

import hashlib
from typing import Any, Final

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.core.identifiers import is_dns_label
from foundation.sql.versions import advance_version
from scheduling.job_file import load_text
from scheduling.models import JobTemplate
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant, User

TEMPLATES_MAX: Final = 200
"""The maximum number of templates of a workspace."""
DESCRIPTION_MAX: Final = 200


@transaction.atomic
def job_template_create(
    *, acting_user: Actor, workspace: Tenant, name: str, text: str, description: str = ""
) -> JobTemplate:
    """Save a job file for the members of a workspace; it need not be complete.

    Raises: NotFound, PermissionDenied; Invalid for the name, for a text that isn't YAML, and for a folder;
    Conflict when the name is taken or the workspace has `TEMPLATES_MAX` templates.
    """
    permissions.require_permission(acting_user, Permission.JOB_SUBMIT, workspace)
    if not workspace.is_workspace:
        raise Invalid(
            _("%(tenant)s is a folder. Only workspaces have job templates.") % {"tenant": workspace}
        )
    if JobTemplate.unscoped.filter(workspace=workspace).count() >= TEMPLATES_MAX:
        message = _("A workspace has at most %(limit)s job templates. Delete one first.")
        raise Conflict(message % {"limit": TEMPLATES_MAX}, code="TOO_MANY")
    made = JobTemplate(workspace=workspace, name=name, description=description, text=text)
    _save(acting_user, made)
    _note(acting_user, "create", made, {}, _facts(made))
    return made


@transaction.atomic
def job_template_change(
    *,
    acting_user: Actor,
    template: JobTemplate,
    name: str | None = None,
    description: str | None = None,
    text: str | None = None,
    version: int | None = None,
) -> JobTemplate:
    """Change a template; fields that are None stay. Jobs that were submitted from it aren't affected.

    Raises: NotFound, PermissionDenied; Invalid; Conflict; PreconditionFailed for another version.
    """
    permissions.require_permission(acting_user, Permission.JOB_SUBMIT, template.workspace)
    before = _facts(template)
    advance_version(template, expected=version)
    template.name = template.name if name is None else name
    template.description = template.description if description is None else description
    template.text = template.text if text is None else text
    _save(acting_user, template)
    _note(acting_user, "change", template, before, _facts(template))
    return template


@transaction.atomic
def job_template_delete(*, acting_user: Actor, template: JobTemplate, version: int | None = None) -> None:
    """Delete a template. Jobs that were submitted from it aren't affected.

    Raises: NotFound, PermissionDenied; PreconditionFailed for another version.
    """
    permissions.require_permission(acting_user, Permission.JOB_SUBMIT, template.workspace)
    advance_version(template, expected=version)
    _note(acting_user, "delete", template, _facts(template), {})
    template.delete()


def _save(actor: Actor, template: JobTemplate) -> None:
    _check(template)
    template.saved_by = actor if isinstance(actor, User) else None
    template.saved_at = clock.now()
    try:
        with transaction.atomic():
            template.save()
    except IntegrityError as error:
        message = _("Job template %(name)s already exists.") % {"name": template.name}
        errors = [FieldError("name", "NAME_TAKEN", message)]
        raise Conflict(message, code="NAME_TAKEN", errors=errors) from error


def _check(template: JobTemplate) -> None:
    """Check name, description and text. Raises: Invalid with every error."""
    errors: list[FieldError] = []
    if not is_dns_label(template.name):
        message = _("Use lowercase letters, digits and hyphens, for example train-1.")
        errors.append(FieldError("name", "FORMAT", message))
    if len(template.description) > DESCRIPTION_MAX:
        errors.append(
            FieldError("description", "TOO_LONG", _("Maximum: %(limit)s characters.") % {"limit": 200})
        )
    try:
        load_text(template.text)
    except Invalid as error:
        errors.append(FieldError("text", error.code, error.detail))
    if errors:
        raise Invalid(errors[0].message, errors=errors)


def _facts(template: JobTemplate) -> dict[str, Any]:
    # Only members of the workspace may read the text, so the audit log gets its digest.
    digest = hashlib.sha256(template.text.encode()).hexdigest()
    return {"name": template.name, "description": template.description, "text_sha256": digest}


def _note(
    actor: Actor, verb: str, template: JobTemplate, before: dict[str, Any], after: dict[str, Any]
) -> None:
    audit_log.record_action(
        actor,
        f"job-template.{verb}",
        entity="job-template",
        entity_id=template.pk,
        tenant_id=template.workspace_id,
        before=before,
        after=after,
    )
