"""Administration of quotas: read, change, revert, import and export."""

from __future__ import annotations

import uuid
from typing import Any, ClassVar, Final

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation.core.errors import PermissionDenied
from foundation.sql.versions import if_match, version_header
from foundation.web.listing import Column
from quotas.api.parsers import FILE_PARSERS
from quotas.api.quota_serializers import (
    DifferenceSerializer,
    NodeQuotaSerializer,
    QuotaEffectSerializer,
    QuotaNodeSerializer,
    QuotaPatchSerializer,
    RevisionSerializer,
    ShrinkSerializer,
)
from quotas.files import FileFormat
from quotas.models import QuotaRevision
from quotas.selectors.changes.quota_history import quota_history, quota_revision_get
from quotas.selectors.tables.quota_table import node_quota, quota_node_get, quota_nodes, tenant_get
from quotas.services.quota import NodeAmounts, Shrink, quota_set
from quotas.services.quota_amounts import parse_amounts
from quotas.services.quota_files.quota_file import (
    QuotaFile,
    quota_file_apply,
    quota_file_check,
    quota_file_export,
)
from quotas.services.quota_preview import quota_preview
from quotas.services.quota_revert import quota_revert, revert_changes
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView
from tenants.api.requests.bodies import read_body
from tenants.api.requests.query import ListQuery, NoQuery, QuerySerializer, WriteQuery, read_query
from tenants.api.requests.writes import dry_run_of
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH, problem_responses

_TYPES: Final = {FileFormat.YAML: "application/yaml", FileFormat.CSV: "text/csv"}
_FILE_BODY: Final = {"application/yaml": OpenApiTypes.STR, "text/csv": OpenApiTypes.STR}


class NodesQuery(ListQuery):
    columns: ClassVar = {
        "tenant": Column("tenant.slug"),
        "cell": Column("cell.name"),
    }


class FileQuery(QuerySerializer):
    kind = serializers.ChoiceField(choices=[kind.value for kind in FileFormat], default="yaml")
    tenant = serializers.CharField(required=False, max_length=63, help_text="The tenant and its children.")


class ImportQuery(WriteQuery):
    reason = serializers.CharField(default="", max_length=500)
    shrink = serializers.ChoiceField(choices=[choice.value for choice in Shrink], required=False)
    on_top = serializers.BooleanField(default=False)


class AdminQuotasView(PlatformView):
    """Quota nodes in sight."""

    points = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="admin_quota_list",
        summary="Quota nodes of tenants that you can view",
        parameters=[NodesQuery],
        responses={200: list_of(QuotaNodeSerializer), **problem_responses(400)},
        tags=["quotas"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of nodes, parents first."""
        return list_response(request, NodesQuery, quota_nodes(self.viewer), QuotaNodeSerializer)


class AdminQuotaView(PlatformView):
    """The quota of one node."""

    points = {"GET": Permission.QUOTA_VIEW, "PATCH": Permission.QUOTA_EDIT}
    handles_dry_run = True

    @extend_schema(
        operation_id="admin_quota_get",
        summary="The quota of one node: its own, distributed, reserved, borrowed and lent",
        responses={200: NodeQuotaSerializer, **problem_responses(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, node: uuid.UUID) -> Response:
        """Return the node with a row per flavor and resource."""
        read_query(request, NoQuery)
        return self._shown(node)

    @extend_schema(
        operation_id="admin_quota_change",
        summary="Update the limits of a node",
        description=(
            "Increases are taken from the parent node. A dry run returns the nodes over quota, the "
            "jobs to be preempted and the jobs that can start."
        ),
        parameters=[WriteQuery, IF_MATCH],
        request=QuotaPatchSerializer,
        responses={200: NodeQuotaSerializer, **problem_responses(400, 404, 422)},
        tags=["quotas"],
    )
    def patch(self, request: Request, node: uuid.UUID) -> Response:
        """Set the named limits, all or none."""
        read_query(request, WriteQuery)
        found = quota_node_get(self.viewer, node)
        expected = if_match(request)
        values = read_body(QuotaPatchSerializer, request)
        amounts = parse_amounts(found, values["amounts"])
        shrink = Shrink(values["shrink"]) if values["shrink"] else None
        if dry_run_of(request):
            effect = quota_preview(
                acting_user=self.viewer,
                cell_id=found.cell_id,
                changes=[NodeAmounts(found, amounts, expected)],
                shrink=shrink,
                on_top=values["on_top"],
            )
            return Response(QuotaEffectSerializer(effect).data)
        quota_set(
            acting_user=self.viewer,
            node=found,
            amounts=amounts,
            version=expected,
            reason=values["reason"],
            shrink=shrink,
            on_top=values["on_top"],
        )
        return self._shown(node)

    def _shown(self, node: uuid.UUID) -> Response:
        found = node_quota(self.viewer, quota_node_get(self.viewer, node))
        return Response(NodeQuotaSerializer(found).data, headers=version_header(found.node))


class AdminQuotaHistoryView(PlatformView):
    """The changes of quota at a node's tenant and below it."""

    points = {"GET": Permission.QUOTA_VIEW}

    @extend_schema(
        operation_id="admin_quota_history",
        summary="Quota change history of a tenant and its children, newest first",
        parameters=[ListQuery],
        responses={200: list_of(RevisionSerializer), **problem_responses(400, 404)},
        tags=["quotas"],
    )
    def get(self, request: Request, node: uuid.UUID) -> Response:
        """Return one page of revisions."""
        tenant = quota_node_get(self.viewer, node).tenant
        return list_response(request, ListQuery, quota_history(self.viewer, tenant), RevisionSerializer)


class QuotaRevertView(PlatformView):
    """The revert of a quota change."""

    points = {"POST": Permission.QUOTA_EDIT}
    handles_dry_run = True

    def may_see_again(self) -> None:
        """Check that the user may still see the revision. Raises: NotFound."""
        quota_revision_get(self.viewer, self.kwargs["revision"])

    @extend_schema(
        operation_id="admin_quota_revert",
        summary="Revert a quota change",
        description=(
            "A revert is itself a change with the same checks. Rejected if a limit was changed later."
        ),
        parameters=[WriteQuery],
        request=ShrinkSerializer,
        responses={
            200: QuotaEffectSerializer,
            201: RevisionSerializer,
            **problem_responses(400, 404, 409, 422),
        },
        tags=["quotas"],
    )
    def post(self, request: Request, revision: uuid.UUID) -> Response:
        """Set every limit of the revision back to what it was before."""
        read_query(request, WriteQuery)
        found = quota_revision_get(self.viewer, revision)
        values = read_body(ShrinkSerializer, request)
        shrink = Shrink(values["shrink"]) if values["shrink"] else None
        if dry_run_of(request):
            return Response(QuotaEffectSerializer(self._effect(found, shrink)).data)
        made = quota_revert(acting_user=self.viewer, revision=found, reason=values["reason"], shrink=shrink)
        shown = quota_revision_get(self.viewer, made.pk if made else revision)
        return Response(RevisionSerializer(shown).data, status=201)

    def _effect(self, revision: QuotaRevision, shrink: Shrink | None) -> Any:
        return quota_preview(
            acting_user=self.viewer,
            cell_id=revision.cell_id,
            changes=revert_changes(self.viewer, revision),
            shrink=shrink,
            on_top=revision.on_top,
        )


class QuotaFileView(PlatformView):
    """Quotas as a file."""

    points = {"GET": Permission.QUOTA_VIEW, "POST": Permission.QUOTA_EDIT}
    parser_classes = FILE_PARSERS
    handles_dry_run = True

    def may_see_again(self) -> None:
        """Check that the user may still see any tenant; the answer only repeats the user's own file.

        Raises: PermissionDenied.
        """
        if not permissions.visible_tenants(self.viewer).exists():
            raise PermissionDenied

    @extend_schema(
        operation_id="admin_quota_export",
        summary="Export all quotas that you can view",
        parameters=[FileQuery],
        responses={
            (200, "application/yaml"): OpenApiTypes.STR,
            (200, "text/csv"): OpenApiTypes.STR,
            **problem_responses(400, 404),
        },
        tags=["quotas"],
    )
    def get(self, request: Request) -> HttpResponse:
        """Return YAML or CSV that can be edited and imported."""
        query = read_query(request, FileQuery)
        kind = FileFormat(query["kind"])
        tenant = tenant_get(self.viewer, query["tenant"]) if "tenant" in query else None
        text = quota_file_export(viewer=self.viewer, kind=kind, tenant=tenant)
        headers = {"Content-Disposition": f'attachment; filename="quotas.{kind.value}"'}
        return HttpResponse(text, content_type=f"{_TYPES[kind]}; charset=utf-8", headers=headers)

    @extend_schema(
        operation_id="admin_quota_import",
        summary="Apply a YAML or CSV file atomically",
        description="A dry run returns the differences. Errors include the line and the field.",
        parameters=[ImportQuery],
        request=_FILE_BODY,
        responses={200: DifferenceSerializer, **problem_responses(400, 413, 415, 422)},
        tags=["quotas"],
    )
    def post(self, request: Request) -> Response:
        """Apply the file, or with `dry_run` only compare it."""
        query = read_query(request, ImportQuery)
        kind = FileFormat.CSV if request.content_type.startswith("text/csv") else FileFormat.YAML
        file = QuotaFile(str(request.data or ""), kind, f"body.{kind.value}")
        found = quota_file_check(acting_user=self.viewer, file=file, on_top=query["on_top"])
        if not dry_run_of(request):
            quota_file_apply(
                acting_user=self.viewer,
                file=file,
                reason=query["reason"],
                shrink=Shrink(query["shrink"]) if "shrink" in query else None,
                on_top=query["on_top"],
            )
        return Response(DifferenceSerializer(found).data)
