"""Addresses of the console."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import include, path

from frontend.lists import choice
from frontend.pages.account import access_keys, profile, service_accounts, sign_in
from frontend.pages.alerts import alert_list, channels, rules, silences
from frontend.pages.estimates import change_estimate
from frontend.pages.jobs import job_actions, workspace_overview
from frontend.pages.jobs.detail import job_check, job_cluster, job_page
from frontend.pages.jobs.resources import job_memory
from frontend.pages.jobs.table import job_batch, job_list
from frontend.pages.live import change_stream, outages
from frontend.pages.messages import page as message_page
from frontend.pages.notebooks import page as notebooks
from frontend.pages.operations import audit, branding
from frontend.pages.people import choices, invitation
from frontend.pages.policies import job_policies, queue_charts, queue_page, queues
from frontend.pages.quotas import workspace
from frontend.pages.requests import limits, own_requests
from frontend.pages.start import home, search
from frontend.pages.styleguide import styleguide
from frontend.pages.submission import draft_estimate, job_new, startable_jobs, templates, volume_claims
from frontend.pages.tenancy import members
from frontend.pages.usage import preemptions, workspace_usage

app_name = "frontend"

_WORKSPACE = [
    path("overview", workspace_overview.show_overview, name="workspace-overview"),
    path("overview/live", workspace_overview.overview_live, name="workspace-overview-live"),
    path("overview/charts/<slug:kind>", workspace_overview.overview_chart, name="workspace-overview-chart"),
    path("quota", workspace.workspace_quota, name="workspace-quota"),
    path("queues", queues.workspace_queues, name="workspace-queues"),
    path("queues/<slug:queue>", queue_page.show_queue, name="workspace-queue"),
    path("queues/<slug:queue>/live", queue_page.queue_live, name="workspace-queue-live"),
    path("queues/<slug:queue>/charts/<slug:kind>", queue_charts.queue_chart, name="workspace-queue-chart"),
    path("queues/<slug:queue>/check", queue_page.check_queue, name="workspace-queue-check"),
    path("requests", own_requests.show_requests, name="workspace-requests"),
    path("limits", limits.show_limits, name="workspace-limits"),
    path("usage", workspace_usage.workspace_usage, name="workspace-usage"),
    path("usage/preemptions", preemptions.workspace_preemptions, name="workspace-preemptions"),
    path("jobs", job_list.job_list, name="job-list"),
    path("notebooks", notebooks.show_notebooks, name="notebook-list"),
    path("job-batch", job_batch.post_batch, name="job-batch"),
    path("jobs/new", job_new.job_new, name="job-new"),
    path("jobs/new/check", job_new.job_new_check, name="job-new-check"),
    path("jobs/new/estimate", draft_estimate.draft_estimate, name="job-new-estimate"),
    path("jobs/new/sizes", startable_jobs.job_sizes, name="job-new-sizes"),
    path("jobs/new/claims", volume_claims.job_claims, name="job-new-claims"),
    path("job-templates", templates.show_templates, name="job-templates"),
    path("job-templates/new", templates.template_new, name="job-template-new"),
    path("job-templates/<uuid:template>", templates.show_template, name="job-template"),
    path("jobs/<str:job>", job_page.job_detail, name="job-detail"),
    path("jobs/<str:job>/live", job_page.job_live, name="job-live"),
    path("jobs/<str:job>/check", job_check.check_job, name="job-check"),
    path("jobs/<str:job>/log", job_cluster.job_log, name="job-log"),
    path("jobs/<str:job>/pod-events", job_cluster.job_pod_events, name="job-pod-events"),
    path("jobs/<str:job>/charts/<slug:measure>", job_page.job_chart, name="job-chart"),
    path("jobs/<str:job>/cancel", job_actions.post_cancel, name="job-cancel"),
    path("jobs/<str:job>/watch", job_actions.post_watch, name="job-watch"),
    path("jobs/<str:job>/unwatch", job_actions.post_unwatch, name="job-unwatch"),
    path("jobs/<str:job>/suspend", job_actions.post_suspend, name="job-suspend"),
    path("jobs/<str:job>/tags", job_actions.post_tags, name="job-tags"),
    path("jobs/<str:job>/exchange", job_actions.post_exchange, name="job-exchange"),
    path("jobs/<str:job>/priority", job_actions.post_priority, name="job-priority"),
    path("jobs/<str:job>/extend", job_actions.post_extend, name="job-extend"),
    path("jobs/<str:job>/tasks/<uuid:task>/memory", job_memory.job_memory, name="job-memory"),
    path("jobs/<str:job>/resume", job_actions.post_resume, name="job-resume"),
    path("jobs/<str:job>/restart", job_actions.post_restart, name="job-restart"),
    path("members", members.workspace_members, name="workspace-members"),
    path("members/permissions", members.workspace_permissions, name="workspace-permissions"),
    path("alerts", alert_list.workspace_alerts, name="workspace-alerts"),
    path("alerts/rules", rules.workspace_rules, name="workspace-alert-rules"),
    path("alerts/channels", channels.workspace_channels, name="workspace-alert-channels"),
    path("alerts/silences", silences.workspace_silences, name="workspace-silences"),
    path("policy", job_policies.workspace_policy, name="workspace-policy"),
    path("audit", audit.workspace_audit, name="workspace-audit"),
    path("keys", access_keys.workspace_keys, name="workspace-keys"),
    path("keys/accounts", service_accounts.show_accounts, name="workspace-service-accounts"),
]

urlpatterns = [
    path("", home.redirect_home, name="home"),
    path("logo/<slug:mark>", branding.show_logo, name="logo"),
    path("login", sign_in.SignIn.as_view(), name="login"),
    path("logout", LogoutView.as_view(), name="logout"),
    path("account", profile.show_account, name="account"),
    path("account/keys", access_keys.own_keys, name="account-keys"),
    path("search", search.show_results, name="search"),
    path("live", change_stream.stream_changes, name="live"),
    path("messages", message_page.show_messages, name="messages"),
    path("messages/bell", message_page.show_bell, name="bell"),
    path("messages/<uuid:message>", message_page.open_message, name="message"),
    path("change-estimate", change_estimate.change_estimate, name="change-estimate"),
    path("outages", outages.show_outages, name="outages"),
    path("lists/<slug:key>", choice.keep_choice, name="list-choice"),
    path("people", choices.find_people, name="people"),
    path("quota-names", choices.find_quotas, name="quota-names"),
    path("tenant-names", choices.find_tenants, name="tenant-names"),
    path("invitation/<uuid:user>/<str:token>", invitation.show_invitation, name="invitation"),
    path("w/<slug:workspace>", workspace_overview.redirect_to_first_page, name="workspace"),
    path("w/<slug:workspace>/", include(_WORKSPACE)),
    path("styleguide", styleguide.show_styleguide, name="ops-styleguide"),
    path("ops/", include("frontend.urls_operations")),
]
