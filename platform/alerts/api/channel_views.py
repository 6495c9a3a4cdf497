"""Notification channels and silences."""

from __future__ import annotations

import uuid
from typing import Any, Final

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema, extend_schema_view
from rest_framework.request import Request
from rest_framework.response import Response

from alerts.api.scope import OfPlatform, OfWorkspace
from alerts.api.serializers import (
    ChannelChangeSerializer,
    ChannelCreateSerializer,
    ChannelSerializer,
    ChannelsQuery,
    ChannelTestSerializer,
    SilenceCreateSerializer,
    SilenceSerializer,
    SilencesQuery,
)
from alerts.models import AlertSeverity, ChannelKind, NotificationChannel
from alerts.selectors.alerts import get_row, list_channels, list_rules, list_silences
from alerts.services.access import require_edit
from alerts.services.channel import change_channel, check_channel, create_channel, delete_channel
from alerts.services.silence import create_silence, end_silence
from foundation.core.errors import FieldError, Invalid
from foundation.sql.versions import if_match, version_header
from tenants.api.requests.bodies import read_body
from tenants.api.requests.query import NoQuery, read_query
from tenants.api.requests.writes import dry_run_of
from tenants.api.responses.pages import list_of, list_response
from tenants.api.responses.schema import IF_MATCH, problem_responses

_TAGS: Final = ["alerts"]
_CHANNELS: Any = list_of(ChannelSerializer)
_SILENCES: Any = list_of(SilenceSerializer)


@extend_schema_view(
    get=extend_schema(
        operation_id="admin_notification_channel_list",
        summary="Notification channels of the platform",
        parameters=[ChannelsQuery],
        responses={200: _CHANNELS, **problem_responses(400)},
        tags=_TAGS,
    ),
    post=extend_schema(
        operation_id="admin_notification_channel_create",
        summary="Create a notification channel of the platform",
        request=ChannelCreateSerializer,
        responses={201: ChannelSerializer, **problem_responses(400, 409)},
        tags=_TAGS,
    ),
)
class AdminChannelsView(OfPlatform):
    """Channels of the platform."""

    def get(self, request: Request, **_kwargs: Any) -> Response:
        """Return one page of channels by name."""
        rows = list_channels(self.viewer, self.get_owner())
        return list_response(request, ChannelsQuery, rows, ChannelSerializer)

    def post(self, request: Request, **_kwargs: Any) -> Response:
        """Create a channel. Send a test message with its action `test`."""
        read_query(request, NoQuery)
        values = read_body(ChannelCreateSerializer, request)
        kind = ChannelKind(values.pop("kind"))
        made = create_channel(acting_user=self.viewer, tenant=self.get_owner(), kind=kind, **values)
        answer = _show(self, made.pk, status=201)
        answer.headers["Location"] = f"{request.path}/{made.pk}"
        return answer


@extend_schema_view(
    get=extend_schema(
        operation_id="notification_channel_list",
        summary="Notification channels of a workspace",
        parameters=[ChannelsQuery],
        responses={200: _CHANNELS, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
    post=extend_schema(
        operation_id="notification_channel_create",
        summary="Create a notification channel of a workspace",
        request=ChannelCreateSerializer,
        responses={201: ChannelSerializer, **problem_responses(400, 404, 409)},
        tags=_TAGS,
    ),
)
class ChannelsView(OfWorkspace, AdminChannelsView):
    """Channels of one workspace."""


@extend_schema_view(
    get=extend_schema(
        operation_id="admin_notification_channel_get",
        summary="Get a notification channel of the platform",
        responses={200: ChannelSerializer, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
    patch=extend_schema(
        operation_id="admin_notification_channel_change",
        summary="Update a notification channel of the platform",
        parameters=[IF_MATCH],
        request=ChannelChangeSerializer,
        responses={200: ChannelSerializer, **problem_responses(400, 404, 409)},
        tags=_TAGS,
    ),
    delete=extend_schema(
        operation_id="admin_notification_channel_delete",
        summary="Delete a notification channel of the platform and its unsent notifications",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
)
class AdminChannelView(OfPlatform):
    """One channel of the platform."""

    def get(self, request: Request, channel: uuid.UUID, **_kwargs: Any) -> Response:
        """Return the channel."""
        read_query(request, NoQuery)
        return _show(self, channel)

    def patch(self, request: Request, channel: uuid.UUID, **_kwargs: Any) -> Response:
        """Update the given fields; a failing channel is tried again at once."""
        read_query(request, NoQuery)
        found = get_row(list_channels(self.viewer, self.get_owner()), channel)
        expected = if_match(request)
        values = read_body(ChannelChangeSerializer, request)
        change_channel(acting_user=self.viewer, channel=found, values=values, version=expected)
        return _show(self, channel)

    def delete(self, request: Request, channel: uuid.UUID, **_kwargs: Any) -> Response:
        """Delete the channel and the notifications that it has not sent."""
        read_query(request, NoQuery)
        found = get_row(list_channels(self.viewer, self.get_owner()), channel)
        delete_channel(acting_user=self.viewer, channel=found, version=if_match(request))
        return Response(status=204)


@extend_schema_view(
    get=extend_schema(
        operation_id="notification_channel_get",
        summary="Get a notification channel of a workspace",
        responses={200: ChannelSerializer, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
    patch=extend_schema(
        operation_id="notification_channel_change",
        summary="Update a notification channel of a workspace",
        parameters=[IF_MATCH],
        request=ChannelChangeSerializer,
        responses={200: ChannelSerializer, **problem_responses(400, 404, 409)},
        tags=_TAGS,
    ),
    delete=extend_schema(
        operation_id="notification_channel_delete",
        summary="Delete a notification channel of a workspace and its unsent notifications",
        parameters=[IF_MATCH],
        responses={204: None, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
)
class ChannelView(OfWorkspace, AdminChannelView):
    """One channel of a workspace."""


@extend_schema_view(
    post=extend_schema(
        operation_id="admin_notification_channel_test",
        summary="Send a test message through a channel of the platform",
        request=None,
        responses={200: ChannelTestSerializer, **problem_responses(400, 404)},
        tags=_TAGS,
    )
)
class AdminChannelTestView(OfPlatform):
    """A test of a channel of the platform. A dry run sends nothing."""

    handles_dry_run = True

    def post(self, request: Request, channel: uuid.UUID, **_kwargs: Any) -> Response:
        """Send a test message now and return whether it was accepted."""
        read_query(request, NoQuery)
        found = get_row(list_channels(self.viewer, self.get_owner()), channel)
        if dry_run_of(request):
            require_edit(self.viewer, self.get_owner())
            return Response({"accepted": True, "error": ""})
        problem = check_channel(acting_user=self.viewer, channel=found)
        return Response({"accepted": not problem, "error": problem})


@extend_schema_view(
    post=extend_schema(
        operation_id="notification_channel_test",
        summary="Send a test message through a channel of a workspace",
        request=None,
        responses={200: ChannelTestSerializer, **problem_responses(400, 404)},
        tags=_TAGS,
    )
)
class ChannelTestView(OfWorkspace, AdminChannelTestView):
    """A test of a channel of a workspace. A dry run sends nothing."""


@extend_schema_view(
    get=extend_schema(
        operation_id="admin_silence_list",
        summary="Silences of the platform",
        parameters=[SilencesQuery],
        responses={200: _SILENCES, **problem_responses(400)},
        tags=_TAGS,
    ),
    post=extend_schema(
        operation_id="admin_silence_create",
        summary="Silence alerts of the platform and of all tenants",
        request=SilenceCreateSerializer,
        responses={201: SilenceSerializer, **problem_responses(400)},
        tags=_TAGS,
    ),
)
class AdminSilencesView(OfPlatform):
    """Silences of the platform."""

    def get(self, request: Request, **_kwargs: Any) -> Response:
        """Return one page of silences, latest end first."""
        rows = list_silences(self.viewer, self.get_owner())
        return list_response(request, SilencesQuery, rows, SilenceSerializer)

    def post(self, request: Request, **_kwargs: Any) -> Response:
        """Create a silence; matching alerts are still shown."""
        read_query(request, NoQuery)
        values = read_body(SilenceCreateSerializer, request)
        name, severity = values.pop("rule", None), values.pop("severity", None)
        rules = {rule.name: rule for rule in list_rules(self.viewer, self.get_owner())}
        if name is not None and name not in rules:
            message = _("Unknown rule.")
            raise Invalid(message, errors=[FieldError("rule", "UNKNOWN", message)])
        made = create_silence(
            acting_user=self.viewer,
            tenant=self.get_owner(),
            rule=rules[name] if name is not None else None,
            severity=AlertSeverity(severity) if severity else None,
            **values,
        )
        answer = Response(SilenceSerializer(made).data, status=201)
        answer.headers["Location"] = f"{request.path}/{made.pk}"
        return answer


@extend_schema_view(
    get=extend_schema(
        operation_id="silence_list",
        summary="Silences of a workspace",
        parameters=[SilencesQuery],
        responses={200: _SILENCES, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
    post=extend_schema(
        operation_id="silence_create",
        summary="Silence alerts of a workspace's own rules",
        request=SilenceCreateSerializer,
        responses={201: SilenceSerializer, **problem_responses(400, 404)},
        tags=_TAGS,
    ),
)
class SilencesView(OfWorkspace, AdminSilencesView):
    """Silences of one workspace."""


@extend_schema_view(
    delete=extend_schema(
        operation_id="admin_silence_end",
        summary="End a silence of the platform now",
        responses={204: None, **problem_responses(400, 404)},
        tags=_TAGS,
    )
)
class AdminSilenceView(OfPlatform):
    """One silence of the platform."""

    def delete(self, request: Request, silence: uuid.UUID, **_kwargs: Any) -> Response:
        """End the silence; one that has not begun is deleted."""
        read_query(request, NoQuery)
        found = get_row(list_silences(self.viewer, self.get_owner()), silence)
        end_silence(acting_user=self.viewer, silence=found)
        return Response(status=204)


@extend_schema_view(
    delete=extend_schema(
        operation_id="silence_end",
        summary="End a silence of a workspace now",
        responses={204: None, **problem_responses(400, 404)},
        tags=_TAGS,
    )
)
class SilenceView(OfWorkspace, AdminSilenceView):
    """One silence of a workspace."""


def _show(view: OfPlatform, pk: uuid.UUID, *, status: int = 200) -> Response:
    found: NotificationChannel = get_row(list_channels(view.viewer, view.get_owner()), pk)
    return Response(ChannelSerializer(found).data, status=status, headers=version_header(found))
