"""Creates and ends silences."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any, Final

from django.db import transaction
from django.utils.translation import gettext as _

from alerts.models import AlertRule, AlertSeverity, Silence
from alerts.services.access import require_edit
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.errors import FieldError, Invalid
from tenants.models import Tenant, User

LONGEST: Final = timedelta(days=90)


@transaction.atomic
def create_silence(
    *,
    acting_user: User,
    tenant: Tenant | None,
    ends_at: datetime,
    starts_at: datetime | None = None,
    rule: AlertRule | None = None,
    severity: AlertSeverity | None = None,
    subject: str = "",
    comment: str = "",
) -> Silence:
    """Silence matching alerts of a tenant, or of all if `tenant` is None, until `ends_at`.

    Raises: NotFound, PermissionDenied; Invalid for times in the past, too long, or a rule of another tenant.
    """
    require_edit(acting_user, tenant)
    now = clock.now()
    begins = max(starts_at or now, now)
    if not begins < ends_at <= begins + LONGEST:
        message = _("The end must be after the start, within 90 days.")
        raise Invalid(message, errors=[FieldError("ends_at", "RANGE", message)])
    if rule is not None and rule.tenant_id != (tenant.pk if tenant else None):
        message = _("Unknown rule.")
        raise Invalid(message, errors=[FieldError("rule", "UNKNOWN", message)])
    silence = Silence.unscoped.create(
        tenant=tenant,
        rule=rule,
        severity=severity or "",
        subject=subject,
        starts_at=begins,
        ends_at=ends_at,
        comment=comment,
        created_by=acting_user,
    )
    _record(acting_user, "silence.create", silence)
    return silence


@transaction.atomic
def end_silence(*, acting_user: User, silence: Silence) -> None:
    """End a silence now: alerts that still fire are sent. A silence that has ended stays as it is.

    Raises: NotFound, PermissionDenied.
    """
    require_edit(acting_user, silence.tenant)
    now = clock.now()
    if silence.starts_at >= now:
        _record(acting_user, "silence.end", silence)
        silence.delete()
    elif silence.ends_at > now:
        silence.ends_at = now
        silence.save(update_fields=["ends_at"])
        _record(acting_user, "silence.end", silence)


def _record(acting_user: User, action: str, silence: Silence) -> None:
    facts: dict[str, Any] = {
        "rule": silence.rule.name if silence.rule else "",
        "severity": silence.severity,
        "subject": silence.subject,
        "ends_at": silence.ends_at.isoformat(),
        "comment": silence.comment,
    }
    audit_log.record_action(
        acting_user,
        action,
        entity="silence",
        entity_id=silence.pk,
        tenant_id=silence.tenant_id,
        after=facts,
    )
