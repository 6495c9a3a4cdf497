"""Creates, changes and deletes alert rules."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.db import transaction
from django.utils.translation import gettext as _

from alerts.metrics.catalogue import BY_NAME
from alerts.metrics.promql import QUERY_MAX, list_servers
from alerts.models import Alert, AlertRule, AlertState, NotificationChannel
from alerts.models.rule import DURATION_MAX_S
from alerts.services.access import require_edit
from clusters.models import Cluster
from foundation.audit import audit_log
from foundation.core import clock
from foundation.core.actor import Actor
from foundation.core.errors import Conflict, FieldError, Invalid
from foundation.sql.versions import advance_version
from tenants.access import permissions
from tenants.models import Tenant

RULES_MAX: Final = 100
"""The most rules of one tenant, and of the platform."""
REPEAT_MIN_S: Final = 300
FIELDS: Final = (
    *("name", "metric", "query", "comparison", "threshold", "hold_s", "resolve_s", "repeat_s"),
    *("severity", "enabled", "cluster"),
)


@transaction.atomic
def create_rule(
    *,
    acting_user: Actor,
    tenant: Tenant | None,
    values: Mapping[str, Any],
    channels: Sequence[NotificationChannel] = (),
) -> AlertRule:
    """Create a rule of a tenant (None: of the platform). It is evaluated from the next run on.

    `values` are some of `FIELDS`. Raises: NotFound, PermissionDenied; Invalid; Conflict for a name that is
    taken or more than `RULES_MAX` rules.
    """
    require_edit(acting_user, tenant)
    rule = AlertRule(tenant=tenant, **values)
    _check(rule, channels)
    _require_metric(acting_user, rule)
    if AlertRule.unscoped.filter(tenant=tenant).count() >= RULES_MAX:
        raise Conflict(_("There are already %(count)d rules.") % {"count": RULES_MAX}, code="TOO_MANY_RULES")
    rule.save()
    rule.channels.set(channels)
    _record(acting_user, "alert-rule.create", rule, before={}, after=rule_facts(rule))
    return rule


@transaction.atomic
def change_rule(
    *,
    acting_user: Actor,
    rule: AlertRule,
    values: Mapping[str, Any],
    channels: Sequence[NotificationChannel] | None = None,
    version: int | None = None,
) -> AlertRule:
    """Change some of `FIELDS`, and the channels if they are given.

    A rule with another metric or cluster is about other subjects: alerts about the old ones are resolved.
    Raises: NotFound, PermissionDenied; Invalid; Conflict; PreconditionFailed for another version.
    """
    require_edit(acting_user, rule.tenant)
    advance_version(rule, expected=version)
    before, about = rule_facts(rule), (rule.metric, rule.query, rule.cluster_id)
    for name, value in values.items():
        setattr(rule, name, value)
    reads_other = about != (rule.metric, rule.query, rule.cluster_id)
    _check(rule, list(rule.channels.all()) if channels is None else channels, is_new=reads_other)
    _require_metric(acting_user, rule)
    rule.save(update_fields=list(values))
    if channels is not None:
        rule.channels.set(channels)
    if reads_other:
        _close_alerts(rule)
    _record(acting_user, "alert-rule.change", rule, before=before, after=rule_facts(rule))
    return rule


@transaction.atomic
def delete_rule(*, acting_user: Actor, rule: AlertRule, version: int | None = None) -> None:
    """Delete a rule. Its alerts stay in the history; those that fire are resolved without a notification.

    Raises: NotFound, PermissionDenied; PreconditionFailed for another version.
    """
    require_edit(acting_user, rule.tenant)
    advance_version(rule, expected=version)
    _close_alerts(rule)
    _record(acting_user, "alert-rule.delete", rule, before=rule_facts(rule), after={})
    rule.delete()


def _require_metric(acting_user: Actor, rule: AlertRule) -> None:
    """Check that the acting user may see what the metric of a tenant's rule measures."""
    if rule.tenant is not None:
        permissions.require_permission(acting_user, BY_NAME[rule.metric].permission, rule.tenant)


def _close_alerts(rule: AlertRule) -> None:
    rule.alerts.filter(state=AlertState.PENDING).delete()
    firing: Any = Alert.unscoped.filter(rule=rule, state=AlertState.FIRING)
    firing.update(state=AlertState.RESOLVED, resolved_at=clock.now())


def _check(rule: AlertRule, channels: Sequence[NotificationChannel], *, is_new: bool = True) -> None:
    """Check a rule; `is_new` is whether its metric, query or cluster is new."""
    errors = [*_check_values(rule), *_check_query(rule, is_new), *_check_places(rule, channels)]
    if errors:
        raise Invalid(errors[0].message, errors=errors)
    taken = AlertRule.unscoped.filter(tenant=rule.tenant, name=rule.name).exclude(pk=rule.pk)
    if taken.exists():
        message = _("A rule with this name already exists.")
        raise Conflict(message, code="NAME_TAKEN", errors=[FieldError("name", "EXISTS", message)])


def _check_values(rule: AlertRule) -> list[FieldError]:
    errors = []
    if not rule.name.strip():
        errors.append(FieldError("name", "REQUIRED", _("Enter a name.")))
    if rule.metric not in BY_NAME:
        errors.append(FieldError("metric", "UNKNOWN", _("Unknown metric.")))
    if not math.isfinite(rule.threshold) or abs(rule.threshold) > 1e12:
        errors.append(FieldError("threshold", "RANGE", _("The threshold must be a finite number.")))
    for name in ("hold_s", "resolve_s"):
        if not 0 <= getattr(rule, name) <= DURATION_MAX_S:
            errors.append(FieldError(name, "RANGE", _("Must be from 0 seconds to 7 days.")))
    if rule.repeat_s is not None and not REPEAT_MIN_S <= rule.repeat_s <= DURATION_MAX_S:
        errors.append(FieldError("repeat_s", "RANGE", _("Must be from 5 minutes to 7 days.")))
    return errors


def _check_query(rule: AlertRule, is_new: bool) -> list[FieldError]:
    """Check that a rule has a query exactly if its metric needs one, and a server for a new query."""
    metric = BY_NAME.get(rule.metric)
    if metric is None or metric.read_query is None:
        if rule.query:
            return [FieldError("query", "NOT_OF_METRIC", _("This metric has no query."))]
        return []
    if not rule.query.strip():
        return [FieldError("query", "REQUIRED", _("Enter a PromQL query."))]
    if len(rule.query) > QUERY_MAX:
        message = _("Maximum: %(count)d characters.") % {"count": QUERY_MAX}
        return [FieldError("query", "RANGE", message)]
    if is_new and not list_servers(rule.cluster_id):
        message = _("No Prometheus server is configured as a data source of the cluster.")
        return [FieldError("metric", "NO_SERVER", message)]
    return []


def _check_places(rule: AlertRule, channels: Sequence[NotificationChannel]) -> list[FieldError]:
    errors = []
    metric = BY_NAME.get(rule.metric)
    if rule.tenant is not None and metric is not None and not metric.for_tenants:
        message = _("This metric is available to platform rules only.")
        errors.append(FieldError("metric", "PLATFORM_ONLY", message))
    if rule.cluster is not None and metric is not None and not metric.of_cluster:
        message = _("This metric doesn't belong to a cluster.")
        errors.append(FieldError("cluster", "NOT_OF_CLUSTER", message))
    # A channel's owner pays for what is sent through it: a rule uses channels of its own tenant only.
    if any(channel.tenant_id != rule.tenant_id for channel in channels):
        errors.append(FieldError("channels", "UNKNOWN", _("Unknown channel.")))
    return errors


def rule_facts(rule: AlertRule) -> dict[str, Any]:
    """Return the facts of a rule that the audit log records."""
    facts: dict[str, Any] = {name: getattr(rule, name) for name in FIELDS if name != "cluster"}
    cluster: Cluster | None = rule.cluster
    channels = sorted(rule.channels.values_list("name", flat=True)) if rule.pk else []
    return facts | {"cluster": cluster.name if cluster else "", "channels": channels}


def _record(
    acting_user: Actor, action: str, rule: AlertRule, *, before: dict[str, Any], after: dict[str, Any]
) -> None:
    audit_log.record_action(
        acting_user,
        action,
        entity="alert-rule",
        entity_id=rule.pk,
        tenant_id=rule.tenant_id,
        before=before,
        after=after,
    )
