"""Alerts and alert rules."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any, Final

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from alerts.api.scope import OfPlatform, OfWorkspace
from alerts.api.serializers import (
    AlertSerializer,
    AlertsQuery,
    RuleChangeSerializer,
    RuleCreateSerializer,
    RuleSerializer,
    RulesQuery,
)
from alerts.models import AlertRule, NotificationChannel
from alerts.selectors.alerts import get_row, list_alerts, list_channels, list_rules
from alerts.services.rule import change_rule, create_rule, delete_rule
from clusters.models import Cluster
from foundation.core.errors import FieldError, Invalid
from foundation.sql.versions import if_match, version_header
from tenants.access.permissions import Permission
from tenants.api.requests.bodies import read_body
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH, problem_responses
from tenants.models import User

_TAGS: Final = ["alerts"]
_ALERTS: Any = list_of(AlertSerializer)
_RULES: Any = list_of(RuleSerializer)


@extend_schema_view(
    get=extend_schema(
        operation_id="admin_alert_list",
        summary="Alerts of all rules, newest first",
        parameters=[AlertsQuery],
        responses={200: _ALERTS, **problem_responses(400)},
        tags=_TAGS,
    )
)
class AdminAlertsView(OfPlatform):
    """Alerts of all tenants and of the platform."""

    def get(self, request: Request, **_kwargs: Any) -> Response:
        """Return one page of alerts."""
        return list_response(
            request, AlertsQuery, list_alerts(self.viewer, self.get_owner()), AlertSerializer
        )


@extend_schema_view(
    get=extend_schema(
        operation_id="alert_list",
        summary="Alerts about a workspace, newest first",
        description="Alerts of platform and folder rules about the workspace are included.",
        parameters=[AlertsQuery],
        responses={200: _ALERTS, **problem_responses(400, 404)},
        tags=_TAGS,
    )
)
class AlertsView(OfWorkspace, AdminAlertsView):
    """Alerts about one workspace."""

    points = {"GET": Permission.JOB_VIEW}


@extend_schema_view(
    get=extend_schema(
        operation_id="admin_alert_rule_list",
        summary="Alert rules of the platform",
        parameters=[RulesQuery],
        responses={200: _RULES, **problem_responses(400)},
        tags=_TAGS,
    ),
    post=extend_schema(
        operation_id="admin_alert_rule_create",
        summary="Create an alert rule of the platform",
        request=RuleCreateSerializer,
        responses={201: RuleSerializer, **problem_responses(400, 409)},
        tags=_TAGS,
    ),
)
class AdminRulesView(OfPlatform):
    """Rules of the platform."""

    def get(self, request: Request, **_kwargs: Any) -> Response:
        """Return one page of rules by name."""
        return list_response(request, RulesQuery, list_rules(self.viewer, self.get_owner()), RuleSerializer)

    def post(self, request: Request, **_kwargs: Any) -> Response:
        """Create a rule; it is evaluated within 15 seconds."""
        read_query(request, NoQuery)
        values = read_body(RuleCreateSerializer, request)
        channels = _find_channels(self.viewer, self, values.pop("channels", []))
        _resolve_cluster(values)
        made = create_rule(acting_user=self.viewer, tenant=self.get_owner(), values=values, channels=channels)
        answer = _show(self, made.pk, status=201)
        answer.headers["Location"] = f"{request.path}/{made.pk}"
        return answer


@extend_schema_view(
    get=extend_schema(
        operation_id="alert_rule_list",
        summary="Alert rules of a workspace",
        parameters=[RulesQuery],
        responses={200: _RULES, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
    post=extend_schema(
        operation_id="alert_rule_create",
        summary="Create an alert rule of a workspace",
        request=RuleCreateSerializer,
        responses={201: RuleSerializer, **problem_responses(400, 404, 409)},
        tags=_TAGS,
    ),
)
class RulesView(OfWorkspace, AdminRulesView):
    """Rules of one workspace."""


@extend_schema_view(
    get=extend_schema(
        operation_id="admin_alert_rule_get",
        summary="Get an alert rule of the platform",
        responses={200: RuleSerializer, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
    patch=extend_schema(
        operation_id="admin_alert_rule_change",
        summary="Update an alert rule of the platform",
        parameters=[IF_MATCH],
        request=RuleChangeSerializer,
        responses={200: RuleSerializer, **problem_responses(400, 404, 409)},
        tags=_TAGS,
    ),
    delete=extend_schema(
        operation_id="admin_alert_rule_delete",
        summary="Delete an alert rule of the platform",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
)
class AdminRuleView(OfPlatform):
    """One rule of the platform."""

    def get(self, request: Request, rule: uuid.UUID, **_kwargs: Any) -> Response:
        """Return the rule."""
        read_query(request, NoQuery)
        return _show(self, rule)

    def patch(self, request: Request, rule: uuid.UUID, **_kwargs: Any) -> Response:
        """Update the given fields. With another metric or cluster, firing alerts are resolved."""
        read_query(request, NoQuery)
        found = get_row(list_rules(self.viewer, self.get_owner()), rule)
        expected = if_match(request)
        values = read_body(RuleChangeSerializer, request)
        channels = _find_channels(self.viewer, self, values.pop("channels")) if "channels" in values else None
        _resolve_cluster(values)
        change_rule(acting_user=self.viewer, rule=found, values=values, channels=channels, version=expected)
        return _show(self, rule)

    def delete(self, request: Request, rule: uuid.UUID, **_kwargs: Any) -> Response:
        """Delete the rule; its alerts stay in the history."""
        read_query(request, NoQuery)
        found = get_row(list_rules(self.viewer, self.get_owner()), rule)
        delete_rule(acting_user=self.viewer, rule=found, version=if_match(request))
        return Response(status=204)


@extend_schema_view(
    get=extend_schema(
        operation_id="alert_rule_get",
        summary="Get an alert rule of a workspace",
        responses={200: RuleSerializer, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
    patch=extend_schema(
        operation_id="alert_rule_change",
        summary="Update an alert rule of a workspace",
        parameters=[IF_MATCH],
        request=RuleChangeSerializer,
        responses={200: RuleSerializer, **problem_responses(400, 404, 409)},
        tags=_TAGS,
    ),
    delete=extend_schema(
        operation_id="alert_rule_delete",
        summary="Delete an alert rule of a workspace",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
)
class RuleView(OfWorkspace, AdminRuleView):
    """One rule of a workspace."""


def _show(view: OfPlatform, pk: uuid.UUID, *, status: int = 200) -> Response:
    found: AlertRule = get_row(list_rules(view.viewer, view.get_owner()), pk)
    return Response(RuleSerializer(found).data, status=status, headers=version_header(found))


def _find_channels(viewer: User, view: OfPlatform, names: Sequence[str]) -> list[NotificationChannel]:
    found = {channel.name: channel for channel in list_channels(viewer, view.get_owner())}
    unknown = [name for name in names if name not in found]
    if unknown:
        message = _("Unknown channel: %(name)s.") % {"name": unknown[0]}
        raise Invalid(message, errors=[FieldError("channels", "UNKNOWN", message)])
    return [found[name] for name in dict.fromkeys(names)]


def _resolve_cluster(values: dict[str, Any]) -> None:
    """Replace the name of a cluster by the cluster. Every user may see cluster names, next to each flavor."""
    name = values.get("cluster")
    if name is None:
        return
    values["cluster"] = Cluster.unscoped.filter(name=name).first()
    if values["cluster"] is None:
        message = _("Unknown cluster.")
        raise Invalid(message, errors=[FieldError("cluster", "UNKNOWN", message)])
