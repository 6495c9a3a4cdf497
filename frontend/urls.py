"""Addresses of the console."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import include, path

from frontend.pages import access, account, home, keys, members, search
from frontend.pages.asking import limits, requests
from frontend.pages.ops import audit
from frontend.pages.quotas import page as quota_page
from frontend.pages.rules import policies
from frontend.pages.workspace import job, job_actions, job_cluster, job_memory, job_new, jobs, overview

app_name = "frontend"

_WORKSPACE = [
    path("overview", overview.overview, name="workspace-overview"),
    path("overview/live", overview.overview_live, name="workspace-overview-live"),
    path("quota", quota_page.workspace_quota, name="workspace-quota"),
    path("requests", requests.requests, name="workspace-requests"),
    path("limits", limits.limits, name="workspace-limits"),
    path("jobs", jobs.job_list, name="job-list"),
    path("jobs/live", jobs.job_list_live, name="job-list-live"),
    path("jobs/new", job_new.job_new, name="job-new"),
    path("jobs/new/check", job_new.job_new_check, name="job-new-check"),
    path("jobs/<str:job>", job.job_detail, name="job-detail"),
    path("jobs/<str:job>/live", job.job_live, name="job-live"),
    path("jobs/<str:job>/log", job_cluster.job_log, name="job-log"),
    path("jobs/<str:job>/pod-events", job_cluster.job_pod_events, name="job-pod-events"),
    path("jobs/<str:job>/charts/<slug:measure>", job.job_chart, name="job-chart"),
    path("jobs/<str:job>/cancel", job_actions.cancel, name="job-cancel"),
    path("jobs/<str:job>/suspend", job_actions.suspend, name="job-suspend"),
    path("jobs/<str:job>/tasks/<uuid:task>/memory", job_memory.job_memory, name="job-memory"),
    path("jobs/<str:job>/resume", job_actions.resume, name="job-resume"),
    path("members", members.workspace_members, name="workspace-members"),
    path("policy", policies.workspace_policy, name="workspace-policy"),
    path("audit", audit.workspace_audit, name="workspace-audit"),
    path("keys", keys.workspace_keys, name="workspace-keys"),
]

urlpatterns = [
    path("", home.home, name="home"),
    path("login", access.SignIn.as_view(), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("account", account.account, name="account"),
    path("account/keys", keys.own_keys, name="account-keys"),
    path("search", search.search, name="search"),
    path("w/<slug:workspace>", overview.start, name="workspace"),
    path("w/<slug:workspace>/", include(_WORKSPACE)),
    path("ops/", include("frontend.pages.ops.urls")),
]
