"""Routes of requests, loans, budgets and limits of users below `/api/v1/`."""

from __future__ import annotations

from django.urls import path

from quotas.api import (
    asker_views,
    budget_views,
    override_views,
    request_inbox_views,
    request_lack_views,
    request_views,
    user_limit_views,
)

_MINE = "workspaces/<slug:ws>/quota-requests"
_ALL = "admin/quota-requests"

urlpatterns = [
    path(_MINE, request_views.QuotaRequestsView.as_view(), name="quota-requests"),
    path(
        f"{_MINE}/<uuid:quota_request>",
        request_views.QuotaRequestView.as_view(),
        name="quota-request",
    ),
    path(
        f"{_MINE}/<uuid:quota_request>/withdraw",
        asker_views.QuotaRequestWithdrawView.as_view(),
        name="quota-request-withdraw",
    ),
    path(
        f"{_MINE}/<uuid:quota_request>/accept",
        asker_views.QuotaRequestAcceptView.as_view(),
        name="quota-request-accept",
    ),
    path(
        f"{_MINE}/<uuid:quota_request>/decline",
        asker_views.QuotaRequestDeclineView.as_view(),
        name="quota-request-decline",
    ),
    path(_ALL, request_inbox_views.AdminQuotaRequestsView.as_view(), name="admin-quota-requests"),
    path(
        f"{_ALL}/<uuid:quota_request>",
        request_inbox_views.AdminQuotaRequestView.as_view(),
        name="admin-quota-request",
    ),
    path(
        f"{_ALL}/<uuid:quota_request>/lacks",
        request_lack_views.QuotaRequestLacksView.as_view(),
        name="admin-quota-request-lacks",
    ),
    path(
        f"{_ALL}/<uuid:quota_request>/approve",
        request_inbox_views.QuotaRequestApproveView.as_view(),
        name="admin-quota-request-approve",
    ),
    path(
        f"{_ALL}/<uuid:quota_request>/reject",
        request_inbox_views.QuotaRequestRejectView.as_view(),
        name="admin-quota-request-reject",
    ),
    path(
        f"{_ALL}/<uuid:quota_request>/counter",
        request_inbox_views.QuotaRequestCounterView.as_view(),
        name="admin-quota-request-counter",
    ),
    *(
        path(f"{_ALL}/<uuid:quota_request>/{verb}", view.as_view(), name=f"admin-quota-request-{verb}")
        for verb, view in (
            ("withdraw", asker_views.AdminRequestWithdrawView),
            ("accept", asker_views.AdminRequestAcceptView),
            ("decline", asker_views.AdminRequestDeclineView),
        )
    ),
    path("admin/overrides", override_views.OverridesView.as_view(), name="admin-overrides"),
    path("admin/overrides/<uuid:override>", override_views.OverrideView.as_view(), name="admin-override"),
    path(
        "admin/overrides/<uuid:override>/end",
        override_views.OverrideEndView.as_view(),
        name="admin-override-end",
    ),
    path("workspaces/<slug:ws>/budget", budget_views.WorkspaceBudgetView.as_view(), name="budget"),
    path("workspaces/<slug:ws>/usage", budget_views.WorkspaceGpuHoursView.as_view(), name="usage"),
    path("admin/budgets", budget_views.AdminBudgetsView.as_view(), name="admin-budgets"),
    path("admin/budgets/<uuid:budget>", budget_views.AdminBudgetView.as_view(), name="admin-budget"),
    path("workspaces/<slug:ws>/user-limits", user_limit_views.UserLimitsView.as_view(), name="user-limits"),
    path(
        "workspaces/<slug:ws>/user-limits/<uuid:limit>",
        user_limit_views.UserLimitView.as_view(),
        name="user-limit",
    ),
]
