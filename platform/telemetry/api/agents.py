"""The reports of agents, and the creation and revocation of their keys."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar, Final, cast

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from clusters.gpu.report import ReportInvalid, read_report
from foundation.core import clock
from foundation.core.errors import FieldError, PermissionDenied, Refused
from foundation.web.listing import Column, ColumnKind
from telemetry.api.agent_access import (
    AgentKeyAuthentication,
    AgentRate,
    AgentReportParser,
    HasAgentKey,
    bearer_token,
)
from telemetry.models import AgentKey
from telemetry.series.readings.agents import agent_keys
from telemetry.services.agent_keys import agent_key_create, agent_key_exchange, agent_key_revoke
from telemetry.services.receive import report_store
from telemetry.store.times import to_ms
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import StrictSerializer
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import problem_responses
from tenants.api.tenants import body_of

_INTERVAL_S: Final = 15
_NAMED: Final = 64


class AgentReportSerializer(serializers.Serializer[Any]):
    """The body of a report, in short; docs/telemetry.md has every field."""

    version = serializers.IntegerField()
    node = serializers.CharField()
    sent_at_ms = serializers.IntegerField()
    batches = serializers.ListField(child=serializers.DictField())
    inventory = serializers.DictField(required=False, allow_null=True)
    unsupported = serializers.DictField(required=False)


class AgentReportStoredSerializer(serializers.Serializer[Any]):
    stored = serializers.IntegerField(help_text="Devices, slices and processes stored, per time.")
    duplicates = serializers.IntegerField(help_text="Those whose time another reading has.")
    expired = serializers.IntegerField(help_text="Batches older than two hours.")
    dropped_events = serializers.IntegerField(
        help_text="Events older than two hours, or beyond the newest 256 of a report."
    )
    unknown_devices = serializers.ListField(child=serializers.CharField())
    unknown_pods = serializers.ListField(child=serializers.CharField())
    interval_s = serializers.IntegerField(help_text="Seconds between two batches.")


class NodeNameSerializer(StrictSerializer):
    cluster = serializers.CharField(max_length=80, help_text="Name or ID of the cluster.")
    node = serializers.CharField(max_length=253)


class AgentKeyCreateSerializer(NodeNameSerializer):
    expires_at = serializers.DateTimeField(required=False, help_text="Default and maximum: in 400 days.")


class AgentKeyIssuedSerializer(serializers.Serializer[Any]):
    key = serializers.CharField()
    expires_at = serializers.DateTimeField()


class AgentKeySerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    prefix = serializers.CharField()
    cluster = serializers.CharField(source="node.cluster.name")
    node = serializers.CharField(source="node.name")
    manual = serializers.BooleanField(help_text="Created by a platform admin.")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    revoked_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)


class AgentKeyCreatedSerializer(AgentKeySerializer):
    key = serializers.CharField(help_text="Shown once.")


class AgentKeysQuery(ListQuery):
    columns: ClassVar = {
        "prefix": Column("prefix"),
        "cluster": Column("node__cluster__name"),
        "node": Column("node__name"),
        "created_at": Column("created_at", ColumnKind.TIME),
        "expires_at": Column("expires_at", ColumnKind.TIME),
    }


class AgentReportsView(APIView):
    """Reports of node agents."""

    authentication_classes = (AgentKeyAuthentication,)
    permission_classes = (HasAgentKey,)
    throttle_classes = (AgentRate,)
    parser_classes = (AgentReportParser,)

    @extend_schema(
        operation_id="agent_report",
        summary="Deliver measurements of a node",
        description="For node agents. Repeating a report is harmless. The body may be compressed with gzip.",
        request=AgentReportSerializer,
        responses={200: AgentReportStoredSerializer, **problem_responses(413, 415, 422)},
        tags=["agents"],
    )
    def post(self, request: Request) -> Response:
        """Store a report. The node of the key and of the body must be the same."""
        key = cast("AgentKey", request.auth)
        try:
            report = read_report(request.data, to_ms(clock.now()))
        except ReportInvalid as error:
            message = _("The field is missing or its value is not valid.")
            raise Refused(
                message, code="REPORT_INVALID", errors=[FieldError(error.path, "INVALID", message)]
            ) from error
        if report.node != key.node.name:
            raise PermissionDenied(_("The key is for another node."))
        found = report_store(node=key.node, report=report)
        return Response(
            {
                "stored": found.stored.stored,
                "duplicates": found.stored.duplicates,
                "expired": found.expired,
                "dropped_events": found.dropped_events,
                "unknown_devices": found.stored.unknown_devices[:_NAMED],
                "unknown_pods": found.stored.unknown_pods[:_NAMED],
                "interval_s": _INTERVAL_S,
            }
        )


class AgentExchangeView(APIView):
    """A key for the agent that shows a token of its cluster."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(
        operation_id="agent_key_exchange",
        summary="Exchange a service account token for an agent key",
        description="For node agents. Send the service account token (audience `allotment`) as bearer token.",
        request=NodeNameSerializer,
        responses={200: AgentKeyIssuedSerializer, **problem_responses(413, 415, 503)},
        tags=["agents"],
        auth=[],
    )
    def post(self, request: Request) -> Response:
        """Issue a key that is valid for 24 hours."""
        token = bearer_token(request)
        if not token:
            raise PermissionDenied(_("Send the service account token as bearer token."))
        body = body_of(request, NodeNameSerializer)
        key, secret = agent_key_exchange(token=token, cluster=body["cluster"], node=body["node"])
        return Response({"key": secret, "expires_at": key.expires_at})


class AgentKeysView(PlatformView):
    """Keys of agents."""

    points: ClassVar = {"GET": Permission.CLUSTER_EDIT, "POST": Permission.CLUSTER_EDIT}
    secret_fields = ("key",)

    @extend_schema(
        operation_id="agent_key_list",
        summary="Keys of node agents",
        parameters=[AgentKeysQuery],
        responses={200: list_of(AgentKeySerializer), **problem_responses(400)},
        tags=["agents"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of keys, newest first."""
        return list_response(request, AgentKeysQuery, agent_keys(self.viewer), AgentKeySerializer)

    @extend_schema(
        operation_id="agent_key_create",
        summary="Create an agent key",
        request=AgentKeyCreateSerializer,
        responses={201: AgentKeyCreatedSerializer, **problem_responses(400, 404, 415)},
        tags=["agents"],
    )
    def post(self, request: Request) -> Response:
        """Create a key for an agent without a service account. The key is shown once."""
        read_query(request, NoQuery)
        key, secret = agent_key_create(acting_user=self.viewer, **body_of(request, AgentKeyCreateSerializer))
        row = AgentKey.unscoped.select_related("node__cluster").get(pk=key.pk)
        body = {**AgentKeySerializer(row).data, "key": secret}
        return Response(body, status=201, headers={"Location": f"{request.path}/{key.pk}"})


class AgentKeyView(PlatformView):
    """One key of an agent."""

    points: ClassVar = {"DELETE": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="agent_key_revoke",
        summary="Revoke an agent key",
        responses={204: None, **problem_responses(400, 404)},
        tags=["agents"],
    )
    def delete(self, request: Request, key: uuid.UUID) -> Response:
        """Revoke the key immediately."""
        read_query(request, NoQuery)
        agent_key_revoke(acting_user=self.viewer, key_id=key)
        return Response(status=204)
