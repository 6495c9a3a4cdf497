"""Routes below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from quotas.api import queue_settings, quota_views, team_views, urls_asking, views

urlpatterns = [
    path("workspaces/<slug:ws>/queues", views.QueuesView.as_view(), name="queues"),
    path("workspaces/<slug:ws>/queues/<slug:queue>", queue_settings.QueueView.as_view(), name="queue"),
    path(
        "workspaces/<slug:ws>/queues/<slug:queue>/preset",
        views.QueuePresetView.as_view(),
        name="queue-preset",
    ),
    path("workspaces/<slug:ws>/quota", views.QuotaView.as_view(), name="quota"),
    path("admin/quotas", quota_views.AdminQuotasView.as_view(), name="admin-quotas"),
    path("admin/quotas/<uuid:node>", quota_views.AdminQuotaView.as_view(), name="admin-quota"),
    path(
        "admin/quotas/<uuid:node>/history",
        quota_views.AdminQuotaHistoryView.as_view(),
        name="admin-quota-history",
    ),
    path(
        "admin/quota-revisions/<uuid:revision>/revert",
        quota_views.QuotaRevertView.as_view(),
        name="admin-quota-revert",
    ),
    path("admin/teams", team_views.TeamsView.as_view(), name="admin-teams"),
    path("admin/quota-file", quota_views.QuotaFileView.as_view(), name="admin-quota-file"),
    *urls_asking.urlpatterns,
]
