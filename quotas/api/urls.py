"""Routes below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from quotas.api import views

urlpatterns = [
    path("workspaces/<slug:ws>/queues", views.QueuesView.as_view(), name="queues"),
    path("workspaces/<slug:ws>/quota", views.QuotaView.as_view(), name="quota"),
]
