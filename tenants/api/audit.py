"""The audit over HTTP: of the platform and of one workspace, as pages or as a file."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextvars import copy_context
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

from foundation.audit.audit_log import DENIED, DONE
from foundation.models import AuditRecord
from foundation.sql import row_scope
from foundation.sql.row_scope import RowScope
from foundation.web.spreadsheet_cells import text_cell
from tenants.access.permissions import Permission
from tenants.access.row_scope import scope_of
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.query import PAGE, PAGE_MAX, FilterQuery, read_query
from tenants.api.responses.pages import list_of, page_body
from tenants.api.responses.schema import problem_responses
from tenants.api.responses.streams import AnyAccept, signed_in_still, streaming_response
from tenants.models import User
from tenants.selectors.audit import COLUMNS, AuditFilter, audit_page, audit_query
from tenants.selectors.tenant import workspace_get

_CHUNK: Final = 500
Lines = Callable[[Sequence[Any]], str]
_Page = tuple[str, str | None]
"""The lines of a page, and the cursor after them."""
Piece = Callable[[Lines, str | None], _Page]
Find = Callable[[User, AuditFilter], QuerySet[AuditRecord]]
Found = tuple[RowScope, QuerySet[AuditRecord]]
"""The records to read, and the scope of rows for reading them."""
View = TypeVar("View", bound=Callable[..., Any])


class AuditRecordSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    at = serializers.DateTimeField(source="created_at")
    actor = serializers.CharField(source="actor_name")
    actor_id = serializers.UUIDField(allow_null=True)
    action = serializers.CharField(help_text=("`<entity>.<verb>`; `access.denied` for denied requests."))
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
    until = serializers.DateTimeField(required=False, help_text="Before this time (exclusive).")
    search = serializers.CharField(
        required=False, max_length=100, help_text="Part of actor, action or entity_id."
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


def _list(request: Request, find_records: Callable[[AuditFilter], QuerySet[AuditRecord]]) -> Response:
    query = read_query(request, AuditQuery)
    items, following = audit_page(
        find_records(_filters(query)), cursor=query.get("cursor"), limit=query["limit"]
    )
    return Response(page_body(AuditRecordSerializer(items, many=True).data, None, following))


def _file(request: Request, viewer: User, find_records: Find) -> StreamingHttpResponse:
    query = read_query(request, AuditExportQuery)
    filters, kind = _filters(query), query["type"]
    content_type = "text/csv; charset=utf-8" if kind == "csv" else "application/jsonl"
    disposition = f'attachment; filename="audit.{kind}"'
    begun = (row_scope.current_scope(), find_records(viewer, filters))
    piece = partial(_piece, begun, partial(_again, request, find_records, filters))
    content = _pieces(piece, _csv_lines if kind == "csv" else _json_lines, header=kind == "csv")
    return streaming_response(content, content_type, Content_Disposition=disposition)


async def _pieces(piece: Piece, lines: Lines, *, header: bool) -> AsyncIterator[str]:
    """Yield the records page by page, so that an export of any size holds one page in memory."""
    if header:
        yield ",".join(AuditRecordSerializer().fields) + "\r\n"
    cursor: str | None = None
    while True:
        # Each page runs in its own context, because the scopes of a key are bound in it.
        text, cursor = await sync_to_async(copy_context().run)(piece, lines, cursor)
        yield text
        if cursor is None:
            return


def _piece(begun: Found, again: Callable[[], Found], lines: Lines, cursor: str | None) -> _Page:
    # The response is still being sent after the request has ended, so later pages authenticate the reader
    # again.
    rows, records = begun if cursor is None else again()
    with row_scope.use_scope(rows):
        items, following = audit_page(records, cursor=cursor, limit=_CHUNK)
    return lines(list(AuditRecordSerializer(items, many=True).data)), following


def _again(request: Request, find_records: Find, filters: AuditFilter) -> Found:
    """Return what the reader may read now. Raises: PermissionDenied, NotFound, which abort the file."""
    viewer = signed_in_still(request)
    rows = scope_of(viewer)
    with row_scope.use_scope(rows):
        return rows, find_records(viewer, filters)


def _json_lines(rows: Sequence[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)


def _csv_lines(rows: Sequence[dict[str, Any]]) -> str:
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerows([_cell(value) for value in row.values()] for row in rows)
    return out.getvalue()


def _cell(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False) if isinstance(value, dict) else str(value or "")
    return text_cell(text)


_LIST: Final = list_of(AuditRecordSerializer, cursor=True)
_FILE: Final = OpenApiResponse(
    OpenApiTypes.STR,
    description="Streamed file. The stream ends early if the read permission is removed.",
)


def _list_schema(operation: str, summary: str) -> Callable[[View], View]:
    return extend_schema(
        operation_id=operation,
        summary=summary,
        parameters=[AuditQuery],
        responses={200: _LIST, **problem_responses()},
        tags=["audit"],
    )


def _file_schema(operation: str, summary: str) -> Callable[[View], View]:
    return extend_schema(
        operation_id=operation,
        summary=summary,
        parameters=[AuditExportQuery],
        responses={(200, "application/jsonl"): _FILE, (200, "text/csv"): _FILE, **problem_responses()},
        tags=["audit"],
    )


class AuditView(PlatformView):
    """The audit of the platform."""

    points: ClassVar = {"GET": Permission.AUDIT_VIEW}

    @_list_schema("audit_list", "Audit log of the platform, newest first")
    def get(self, request: Request) -> Response:
        """Return one page of records."""
        return _list(request, lambda filters: audit_query(viewer=self.viewer, filters=filters))


class AuditExportView(PlatformView):
    """The audit of the platform as a file."""

    points: ClassVar = {"GET": Permission.AUDIT_VIEW}
    content_negotiation_class = AnyAccept

    @_file_schema("audit_export", "Audit log of the platform as JSON lines or CSV")
    def get(self, request: Request) -> StreamingHttpResponse:
        """Send all records that match."""
        return _file(request, self.viewer, lambda who, filters: audit_query(viewer=who, filters=filters))


class WorkspaceAuditView(WorkspaceView):
    """The audit of one workspace."""

    points: ClassVar = {"GET": Permission.AUDIT_VIEW}

    @_list_schema("workspace_audit_list", "Audit log of a workspace, newest first")
    def get(self, request: Request, ws: str) -> Response:
        """Return one page of records."""
        tenant = self.workspace
        return _list(request, lambda f: audit_query(viewer=self.viewer, tenant=tenant, filters=f))


class WorkspaceAuditExportView(WorkspaceView):
    """The audit of one workspace as a file."""

    points: ClassVar = {"GET": Permission.AUDIT_VIEW}
    content_negotiation_class = AnyAccept

    @_file_schema("workspace_audit_export", "Audit log of a workspace as JSON lines or CSV")
    def get(self, request: Request, ws: str) -> StreamingHttpResponse:
        """Send all records that match."""

        def find_records(viewer: User, filters: AuditFilter) -> QuerySet[AuditRecord]:
            return audit_query(viewer=viewer, tenant=workspace_get(viewer=viewer, slug=ws), filters=filters)

        return _file(request, self.viewer, find_records)
