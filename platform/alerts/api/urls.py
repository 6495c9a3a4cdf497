"""Routes below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from alerts.api import channel_views, message_views, rule_views

_WS = "workspaces/<slug:ws>"

urlpatterns = [
    path("me/messages", message_views.MessagesView.as_view(), name="my-messages"),
    path("me/messages/read", message_views.MessagesReadView.as_view(), name="my-messages-read"),
    path(f"{_WS}/jobs/<str:job>/watch", message_views.JobWatchView.as_view(), name="job-watch"),
    path(f"{_WS}/alerts", rule_views.AlertsView.as_view(), name="alerts"),
    path(f"{_WS}/alert-rules", rule_views.RulesView.as_view(), name="alert-rules"),
    path(f"{_WS}/alert-rules/<uuid:rule>", rule_views.RuleView.as_view(), name="alert-rule"),
    path(f"{_WS}/notification-channels", channel_views.ChannelsView.as_view(), name="notification-channels"),
    path(
        f"{_WS}/notification-channels/<uuid:channel>",
        channel_views.ChannelView.as_view(),
        name="notification-channel",
    ),
    path(
        f"{_WS}/notification-channels/<uuid:channel>/test",
        channel_views.ChannelTestView.as_view(),
        name="notification-channel-test",
    ),
    path(f"{_WS}/silences", channel_views.SilencesView.as_view(), name="silences"),
    path(f"{_WS}/silences/<uuid:silence>", channel_views.SilenceView.as_view(), name="silence"),
    path("admin/alerts", rule_views.AdminAlertsView.as_view(), name="admin-alerts"),
    path("admin/alert-rules", rule_views.AdminRulesView.as_view(), name="admin-alert-rules"),
    path("admin/alert-rules/<uuid:rule>", rule_views.AdminRuleView.as_view(), name="admin-alert-rule"),
    path(
        "admin/notification-channels",
        channel_views.AdminChannelsView.as_view(),
        name="admin-notification-channels",
    ),
    path(
        "admin/notification-channels/<uuid:channel>",
        channel_views.AdminChannelView.as_view(),
        name="admin-notification-channel",
    ),
    path(
        "admin/notification-channels/<uuid:channel>/test",
        channel_views.AdminChannelTestView.as_view(),
        name="admin-notification-channel-test",
    ),
    path("admin/silences", channel_views.AdminSilencesView.as_view(), name="admin-silences"),
    path("admin/silences/<uuid:silence>", channel_views.AdminSilenceView.as_view(), name="admin-silence"),
]
