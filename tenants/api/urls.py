"""Routes below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from tenants.api import views

urlpatterns = [
    path("me", views.MeView.as_view(), name="me"),
    path("workspaces", views.WorkspacesView.as_view(), name="workspaces"),
    path("workspaces/<slug:ws>", views.WorkspaceDetailView.as_view(), name="workspace"),
    path("workspaces/<slug:ws>/keys", views.AccessKeysView.as_view(), name="keys"),
    path("workspaces/<slug:ws>/keys/<str:prefix>", views.AccessKeyView.as_view(), name="key"),
]
