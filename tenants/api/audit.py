"""The audit over HTTP: of the platform, of one workspace, and either as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, TypeVar

from asgiref.sync import sync_to_async
from django.db.models import QuerySet
from django.http import StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from foundation import row_scope
from foundation.audit import DENIED, DONE
from foundation.models import AuditRecord
from foundation.row_scope import RowScope
from tenants.api.base import PlatformView, WorkspaceView
from tenants.api.pages import answer, list_of
from tenants.api.query import PAGE, PAGE_MAX, FilterQuery, read_query
from tenants.api.schema import problems
from tenants.api.streams import AnyAccept, flowing
from tenants.permissions import Permission
from tenants.selectors.audit import COLUMNS, AuditFilter, audit_page, audit_query

_CHUNK: Final = 500
_FORMULA: Final = ("=", "+", "-", "@", "\t", "\r")
Lines = Callable[[Sequence[Any]], str]
Piece = Callable[[Lines, str | None], tuple[str, str | None]]
View = TypeVar("View", bound=Callable[..., Any])


class AuditRecordSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    at = serializers.DateTimeField(source="created_at")
    actor = serializers.CharField(source="actor_name")
    actor_id = serializers.UUIDField(allow_null=True)
    action = serializers.CharField(help_text="`<entity>.<verb>`; `access.denied` for what was refused.")
    entity = serializers.CharField()
    entity_id = serializers.CharField()
    tenant_id = serializers.UUIDField(allow_null=True)
    before = serializers.DictField()
    after = serializers.DictField()
    result = serializers.ChoiceField(choices=[DONE, DENIED])
    address = serializers.CharField()
    request_id = serializers.CharField()


class AuditFilterQuery(FilterQuery):
    columns: ClassVar = COLUMNS

    since = serializers.DateTimeField(required=False)
    until = serializers.DateTimeField(required=False, help_text="Up to and without this time.")
    search = serializers.CharField(
        required=False, max_length=100, help_text="Anywhere in actor, action or entity_id."
    )


class AuditQuery(AuditFilterQuery):
    limit = serializers.IntegerField(default=PAGE, min_value=1, max_value=PAGE_MAX)
    cursor = serializers.CharField(required=False, help_text="From `next`.")


class AuditExportQuery(AuditFilterQuery):
    type = serializers.ChoiceField(choices=["jsonl", "csv"], default="jsonl")


def _filters(query: dict[str, Any]) -> AuditFilter:
    return AuditFilter(
        since=query.get("since"),
        until=query.get("until"),
        text=query.get("search", ""),
        conditions=query["conditions"],
    )


def _list(request: Request, find: Callable[[AuditFilter], QuerySet[AuditRecord]]) -> Response:
    query = read_query(request, AuditQuery)
    items, following = audit_page(find(_filters(query)), cursor=query.get("cursor"), limit=query["limit"])
    return Response(answer(AuditRecordSerializer(items, many=True).data, None, following))


def _file(request: Request, find: Callable[[AuditFilter], QuerySet[AuditRecord]]) -> StreamingHttpResponse:
    query = read_query(request, AuditExportQuery)
    records = find(_filters(query))
    kind = query["type"]
    content_type = "text/csv; charset=utf-8" if kind == "csv" else "application/jsonl"
    disposition = f'attachment; filename="audit.{kind}"'
    piece = partial(_piece, row_scope.current(), records)
    content = _pieces(piece, _csv_lines if kind == "csv" else _json_lines, header=kind == "csv")
    return flowing(content, content_type, Content_Disposition=disposition)


async def _pieces(piece: Piece, lines: Lines, *, header: bool) -> AsyncIterator[str]:
    """The records page by page, so that an export of any size holds one page in memory."""
    if header:
        yield ",".join(AuditRecordSerializer().fields) + "\r\n"
    cursor: str | None = None
    while True:
        text, cursor = await sync_to_async(piece)(lines, cursor)
        yield text
        if cursor is None:
            return


def _piece(
    rows: RowScope, records: QuerySet[AuditRecord], lines: Lines, cursor: str | None
) -> tuple[str, str | None]:
    # The request is over while its answer still flows.
    with row_scope.acting(rows):
        items, following = audit_page(records, cursor=cursor, limit=_CHUNK)
    return lines(list(AuditRecordSerializer(items, many=True).data)), following


def _json_lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)


def _csv_lines(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value or "")
    # A name that a spreadsheet would take for a formula is shown as the text it is.
    return f"'{text}" if text.startswith(_FORMULA) else text


_LIST: Final = list_of(AuditRecordSerializer, cursor=True)
_FILE: Final = OpenApiResponse(OpenApiTypes.STR, description="The file, sent as it is read.")


def _list_schema(operation: str, summary: str) -> Callable[[View], View]:
    return extend_schema(
        operation_id=operation,
        summary=summary,
        parameters=[AuditQuery],
        responses={200: _LIST, **problems()},
        tags=["audit"],
    )


def _file_schema(operation: str, summary: str) -> Callable[[View], View]:
    return extend_schema(
        operation_id=operation,
        summary=summary,
        parameters=[AuditExportQuery],
        responses={(200, "application/jsonl"): _FILE, (200, "text/csv"): _FILE, **problems()},
        tags=["audit"],
    )


class AuditView(PlatformView):
    """The audit of the platform."""

    points: ClassVar = {"GET": Permission.AUDIT_VIEW}

    @_list_schema("audit_list", "The audit of the platform, newest first")
    def get(self, request: Request) -> Response:
        """Answer one page of records."""
        return _list(request, lambda filters: audit_query(viewer=self.viewer, filters=filters))


class AuditExportView(PlatformView):
    """The audit of the platform as a file."""

    points: ClassVar = {"GET": Permission.AUDIT_VIEW}
    content_negotiation_class = AnyAccept

    @_file_schema("audit_export", "The audit of the platform as JSON lines or CSV")
    def get(self, request: Request) -> StreamingHttpResponse:
        """Send all records that match."""
        return _file(request, lambda filters: audit_query(viewer=self.viewer, filters=filters))


class WorkspaceAuditView(WorkspaceView):
    """The audit of one workspace."""

    points: ClassVar = {"GET": Permission.AUDIT_VIEW}

    @_list_schema("workspace_audit_list", "The audit of a workspace, newest first")
    def get(self, request: Request, ws: str) -> Response:
        """Answer one page of records."""
        tenant = self.workspace
        return _list(request, lambda f: audit_query(viewer=self.viewer, tenant=tenant, filters=f))


class WorkspaceAuditExportView(WorkspaceView):
    """The audit of one workspace as a file."""

    points: ClassVar = {"GET": Permission.AUDIT_VIEW}
    content_negotiation_class = AnyAccept

    @_file_schema("workspace_audit_export", "The audit of a workspace as JSON lines or CSV")
    def get(self, request: Request, ws: str) -> StreamingHttpResponse:
        """Send all records that match."""
        tenant = self.workspace
        return _file(request, lambda f: audit_query(viewer=self.viewer, tenant=tenant, filters=f))
