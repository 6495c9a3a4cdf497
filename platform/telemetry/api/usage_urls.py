"""Routes of usage reports and prices below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from telemetry.api import job_cost_views, preemption_views, price_views, usage_views

urlpatterns = [
    path("workspaces/<slug:ws>/jobs/<str:job>/cost", job_cost_views.JobCostView.as_view(), name="job-cost"),
    path(
        "workspaces/<slug:ws>/usage/report",
        usage_views.WorkspaceUsageReportView.as_view(),
        name="usage-report",
    ),
    path(
        "workspaces/<slug:ws>/usage/export",
        usage_views.WorkspaceUsageExportView.as_view(),
        name="usage-export",
    ),
    path(
        "workspaces/<slug:ws>/usage/preemptions",
        preemption_views.WorkspacePreemptionsView.as_view(),
        name="usage-preemptions",
    ),
    path(
        "admin/usage/preemptions",
        preemption_views.AdminPreemptionsView.as_view(),
        name="admin-usage-preemptions",
    ),
    path("admin/usage/report", usage_views.AdminUsageReportView.as_view(), name="admin-usage-report"),
    path("admin/usage/export", usage_views.AdminUsageExportView.as_view(), name="admin-usage-export"),
    path("admin/prices", price_views.AdminPricesView.as_view(), name="admin-prices"),
    path("admin/prices/<uuid:price>", price_views.AdminPriceView.as_view(), name="admin-price"),
]
