"""Data sources of clusters: exporters and Prometheus servers, how they do, and a test of each."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.selectors.flavor import cluster_get
from foundation.sql.versions import if_match, version_header
from foundation.web.listing import filter_rows, sort_rows
from telemetry.models import SourceKind, TelemetrySource
from telemetry.sources.declarations import MeasureOrigin
from telemetry.sources.fetch import SourceProblem, problem_text
from telemetry.sources.manage import (
    ADDRESS_MAX,
    AUTHORITY_MAX,
    EVERY_S_MAX,
    EVERY_S_MIN,
    SECRET_MAX,
    source_add,
    source_change,
    source_delete,
    source_try,
)
from telemetry.sources.overview import (
    SOURCE_COLUMNS,
    NodeState,
    SourceLine,
    SourceState,
    describe_result,
    describe_sources,
    source_get,
    source_list,
)
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import StrictSerializer, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, page_body, page_of
from tenants.api.responses.schema import IF_MATCH, problem_responses

_PROBLEMS = [problem.value for problem in SourceProblem]


class SourceQuery(ListQuery):
    columns: ClassVar = SOURCE_COLUMNS


class SourceFieldsSerializer(StrictSerializer):
    """Settings of a data source."""

    name = serializers.CharField(max_length=63)
    kind = serializers.ChoiceField(choices=SourceKind.choices)
    address = serializers.CharField(
        max_length=ADDRESS_MAX,
        help_text=(
            "Exporters: address of the metrics page. If the host name resolves to several addresses "
            "(headless service), each is scraped; `{node}` stands for the name of each GPU node. "
            "Prometheus: base address of the server."
        ),
    )
    every_s = serializers.IntegerField(
        min_value=EVERY_S_MIN,
        max_value=EVERY_S_MAX,
        required=False,
        help_text="Seconds between two reads, 15 to 60.",
    )
    enabled = serializers.BooleanField(required=False)
    matchers = serializers.DictField(
        child=serializers.CharField(allow_blank=True),
        required=False,
        help_text="Prometheus only: labels that series must have, such as the name of the cluster.",
    )
    user = serializers.CharField(
        max_length=100, required=False, allow_blank=True, help_text="If set, `secret` is its password."
    )
    secret = serializers.CharField(
        max_length=SECRET_MAX,
        required=False,
        allow_blank=True,
        write_only=True,
        trim_whitespace=False,
        help_text="Bearer token or password. Stored encrypted and never returned.",
    )
    authority = serializers.CharField(
        max_length=AUTHORITY_MAX,
        required=False,
        allow_blank=True,
        help_text="Certificate authority of the server (PEM). Empty: public authorities.",
    )
    history = serializers.BooleanField(
        required=False,
        help_text=(
            "Prometheus only: charts of GPUs and jobs are filled from this server where data is missing."
        ),
    )


class SourceCreateSerializer(SourceFieldsSerializer):
    cluster = serializers.SlugField(max_length=63)


class SourceChangeSerializer(SourceFieldsSerializer):
    """Fields that are left out stay as they are."""

    def get_fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = super().get_fields()
        for field in fields.values():
            field.required = False
        return fields


class SourceNodeSerializer(serializers.Serializer[Any]):
    node = serializers.CharField()
    state = serializers.ChoiceField(choices=[state.value for state in NodeState])
    at = serializers.DateTimeField(allow_null=True, help_text="Time of the newest sample.")
    devices = serializers.IntegerField()
    values = serializers.IntegerField()


class SourceSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="source.id")
    cluster = serializers.CharField(source="source.cluster.name")
    name = serializers.CharField(source="source.name")
    kind = serializers.ChoiceField(source="source.kind", choices=SourceKind.choices)
    address = serializers.CharField(source="source.address")
    every_s = serializers.IntegerField(source="source.every_s")
    enabled = serializers.BooleanField(source="source.enabled")
    matchers = serializers.DictField(source="source.matchers", child=serializers.CharField())
    user = serializers.CharField(source="source.user")
    has_secret = serializers.SerializerMethodField()
    authority = serializers.CharField(source="source.authority")
    history = serializers.BooleanField(source="source.history")
    state = serializers.ChoiceField(choices=[state.value for state in SourceState])
    since = serializers.DateTimeField(
        allow_null=True, help_text="Start of the failure, or time of the last response."
    )
    problem = serializers.SerializerMethodField()
    message = serializers.SerializerMethodField()
    endpoints = serializers.IntegerField(source="status.endpoints", default=0)
    endpoints_failed = serializers.IntegerField(source="status.endpoints_failed", default=0)
    samples_per_minute = serializers.FloatField(allow_null=True)
    refused = serializers.IntegerField(
        source="status.refused", default=0, help_text="Samples of the last response that can't be valid."
    )
    unknown_devices = serializers.ListField(
        source="status.unknown",
        child=serializers.CharField(),
        default=list,
        help_text="GPUs in the last response that aren't in this cluster.",
    )
    measures = serializers.ListField(
        child=serializers.CharField(), help_text="Measures received lately, as `level.measure`."
    )
    nodes = SourceNodeSerializer(many=True)

    def get_has_secret(self, line: SourceLine) -> bool:
        return bool(line.source.secret)

    def get_problem(self, line: SourceLine) -> str:
        return line.status.problem if line.status else ""

    def get_message(self, line: SourceLine) -> str:
        return "" if line.status is None else problem_text(line.status.problem, line.status.detail)


class SourceTestSerializer(serializers.Serializer[Any]):
    ok = serializers.BooleanField()
    problem = serializers.ChoiceField(choices=["", *_PROBLEMS])
    message = serializers.CharField()
    endpoints = serializers.IntegerField()
    endpoints_failed = serializers.IntegerField()
    samples = serializers.IntegerField()
    refused = serializers.IntegerField()
    exporters = serializers.ListField(child=serializers.ChoiceField(choices=[o.value for o in MeasureOrigin]))
    measures = serializers.ListField(child=serializers.CharField())


def _answer(source: TelemetrySource, *, location: str = "") -> Response:
    (line,) = describe_sources([source])
    headers = version_header(source) | ({"Location": location} if location else {})
    return Response(SourceSerializer(line).data, status=201 if location else 200, headers=headers)


class SourcesView(PlatformView):
    """All data sources."""

    points = {"GET": Permission.CLUSTER_VIEW, "POST": Permission.CLUSTER_EDIT}

    @extend_schema(
        operation_id="telemetry_source_list",
        summary="Data sources of all clusters",
        parameters=[SourceQuery],
        responses={200: list_of(SourceSerializer), **problem_responses(400)},
        tags=["telemetry"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of sources by cluster and name, with their state."""
        query = read_query(request, SourceQuery)
        rows = filter_rows(source_list(viewer=self.viewer), query["conditions"])
        if "sort" in query:
            rows = sort_rows(rows, query["sort"], SourceQuery.columns)
        items, total, following = page_of(rows, limit=query["limit"], offset=query["offset"])
        lines = describe_sources(items)
        return Response(page_body(SourceSerializer(lines, many=True).data, total, following))

    @extend_schema(
        operation_id="telemetry_source_create",
        summary="Add a data source",
        request=SourceCreateSerializer,
        responses={201: SourceSerializer, **problem_responses(400, 404, 409)},
        tags=["telemetry"],
    )
    def post(self, request: Request) -> Response:
        """Add the source. It's read for the first time within 15 seconds."""
        read_query(request, NoQuery)
        wanted = read_body(SourceCreateSerializer, request)
        cluster = cluster_get(viewer=self.viewer, name=wanted.pop("cluster"))
        made = source_add(acting_user=self.viewer, cluster=cluster, **wanted)
        return _answer(made, location=f"{request.path}/{made.pk}")


class SourceView(PlatformView):
    """One data source."""

    points = {
        "GET": Permission.CLUSTER_VIEW,
        "PATCH": Permission.CLUSTER_EDIT,
        "DELETE": Permission.CLUSTER_EDIT,
    }

    @extend_schema(
        operation_id="telemetry_source_get",
        summary="Get a data source",
        responses={200: SourceSerializer, **problem_responses(400, 404)},
        tags=["telemetry"],
    )
    def get(self, request: Request, source: uuid.UUID) -> Response:
        """Return the source with its state."""
        read_query(request, NoQuery)
        return _answer(source_get(viewer=self.viewer, pk=source))

    @extend_schema(
        operation_id="telemetry_source_update",
        summary="Update a data source",
        description="If the server in the address changes, a stored `secret` must be sent again.",
        parameters=[IF_MATCH],
        request=SourceChangeSerializer,
        responses={200: SourceSerializer, **problem_responses(400, 404, 409)},
        tags=["telemetry"],
    )
    def patch(self, request: Request, source: uuid.UUID) -> Response:
        """Change what is named."""
        read_query(request, NoQuery)
        found, expected = source_get(viewer=self.viewer, pk=source), if_match(request)
        wanted = read_body(SourceChangeSerializer, request)
        return _answer(source_change(acting_user=self.viewer, source=found, expected=expected, **wanted))

    @extend_schema(
        operation_id="telemetry_source_delete",
        summary="Delete a data source",
        description="Measurements that were read are kept.",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(400, 404)},
        tags=["telemetry"],
    )
    def delete(self, request: Request, source: uuid.UUID) -> Response:
        """Delete the source."""
        read_query(request, NoQuery)
        found, expected = source_get(viewer=self.viewer, pk=source), if_match(request)
        source_delete(acting_user=self.viewer, source=found, expected=expected)
        return Response(status=204)


class SourceTestView(PlatformView):
    """A test of one data source."""

    points = {"POST": Permission.CLUSTER_EDIT}
    handles_dry_run = True

    @extend_schema(
        operation_id="telemetry_source_test",
        summary="Test a data source",
        description="Reads the source once. Nothing is stored.",
        request=None,
        responses={200: SourceTestSerializer, **problem_responses(400, 404)},
        tags=["telemetry"],
    )
    def post(self, request: Request, source: uuid.UUID) -> Response:
        """Read the source now and return what came of it."""
        read_query(request, NoQuery)
        found = source_get(viewer=self.viewer, pk=source)
        result = source_try(acting_user=self.viewer, source=found)
        return Response(SourceTestSerializer(describe_result(result)).data)
