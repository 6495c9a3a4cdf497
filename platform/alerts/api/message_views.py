"""The caller's messages, and the jobs about which they want some."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from alerts.delivery.message_text import write_title
from alerts.models import MessageKind
from alerts.selectors.messages import MESSAGE_COLUMNS, is_watching, list_messages
from alerts.services.job_watch import unwatch_job, watch_job
from alerts.services.message import mark_read
from scheduling.selectors.jobs.job import job_get
from tenants.access.permissions import Permission
from tenants.api.requests.base import PlatformView, WorkspaceView
from tenants.api.requests.bodies import StrictSerializer, read_body
from tenants.api.requests.query import ListQuery, NoQuery, read_query
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import problem_responses

_IDS_MAX: Final = 200


class MessageSerializer(serializers.Serializer[Any]):
    """A message to the caller."""

    id = serializers.UUIDField()
    kind = serializers.ChoiceField(choices=MessageKind.choices)
    event = serializers.CharField(help_text="What happened, for example `started` or `approved`.")
    title = serializers.SerializerMethodField(help_text="What happened, in the language of the request.")
    tenant = serializers.CharField(
        source="tenant.slug",
        default=None,
        allow_null=True,
        help_text="Workspace or folder; null: not about a tenant.",
    )
    path = serializers.CharField(help_text="Page in the console; empty if there is none.")
    created_at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True, help_text="null: unread.")

    def get_title(self, message: Any) -> str:
        """Return the text of the message."""
        return write_title(message)


class MessagesQuery(ListQuery):
    columns: ClassVar = MESSAGE_COLUMNS


class MessagesReadSerializer(StrictSerializer):
    ids = serializers.ListField(
        required=False,
        max_length=_IDS_MAX,
        child=serializers.UUIDField(),
        help_text="Without it all messages are marked.",
    )


class MessagesMarkedSerializer(serializers.Serializer[Any]):
    marked = serializers.IntegerField(help_text="Messages that were unread.")


class JobWatchSerializer(serializers.Serializer[Any]):
    watching = serializers.BooleanField()


_MESSAGES: Any = list_of(MessageSerializer)


class MessagesView(PlatformView):
    """The caller's messages."""

    @extend_schema(
        operation_id="my_message_list",
        summary="Your messages, newest first",
        description="Messages are kept for 90 days.",
        parameters=[MessagesQuery],
        responses={200: _MESSAGES, **problem_responses(400)},
        tags=["me"],
    )
    def get(self, request: Request) -> Response:
        """Return one page of messages."""
        return list_response(request, MessagesQuery, list_messages(self.viewer), MessageSerializer)


class MessagesReadView(PlatformView):
    """The caller's messages as read."""

    @extend_schema(
        operation_id="my_messages_read",
        summary="Mark your messages as read",
        request=MessagesReadSerializer,
        responses={200: MessagesMarkedSerializer, **problem_responses(400)},
        tags=["me"],
    )
    def post(self, request: Request) -> Response:
        """Mark the given messages, or all, and return how many were unread."""
        read_query(request, NoQuery)
        values = read_body(MessagesReadSerializer, request)
        return Response({"marked": mark_read(acting_user=self.viewer, ids=values.get("ids"))})


class JobWatchView(WorkspaceView):
    """Messages to the caller about one job."""

    points: ClassVar = dict.fromkeys(("GET", "POST", "DELETE"), Permission.JOB_VIEW)

    @extend_schema(
        operation_id="job_watch_get",
        summary="Whether you get messages about a job",
        responses={200: JobWatchSerializer, **problem_responses(400, 404)},
        tags=["jobs"],
    )
    def get(self, request: Request, ws: str, job: str) -> Response:
        """Return whether the caller watches the job."""
        read_query(request, NoQuery)
        found = job_get(viewer=self.viewer, workspace=self.workspace, ref=job)
        return Response({"watching": is_watching(self.viewer, found)})

    @extend_schema(
        operation_id="job_watch",
        summary="Get messages when a job starts and when it ends",
        description="Repeating the request changes nothing. 409 `JOB_ENDED` for a job that has ended.",
        request=None,
        responses={200: JobWatchSerializer, **problem_responses(400, 404, 409)},
        tags=["jobs"],
    )
    def post(self, request: Request, ws: str, job: str) -> Response:
        """Watch the job."""
        read_query(request, NoQuery)
        watch_job(acting_user=self.viewer, job=job_get(viewer=self.viewer, workspace=self.workspace, ref=job))
        return Response({"watching": True})

    @extend_schema(
        operation_id="job_unwatch",
        summary="Get no further messages about a job",
        responses={204: None, **problem_responses(400, 404)},
        tags=["jobs"],
    )
    def delete(self, request: Request, ws: str, job: str) -> Response:
        """End the watch."""
        read_query(request, NoQuery)
        unwatch_job(
            acting_user=self.viewer, job=job_get(viewer=self.viewer, workspace=self.workspace, ref=job)
        )
        return Response(status=204)
