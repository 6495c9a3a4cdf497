"""Routes below `/api/v1/`."""

from __future__ import annotations

from typing import Final

from django.urls import path

from scheduling.api.allocations import idle, node_drain, operator, resize
from scheduling.api.jobs import actions, job_template, stream, submissions, views
from scheduling.api.pending import check, explain, start_prediction, startable
from scheduling.api.pods import logs, pod_events
from scheduling.api.policies import policy, policy_check, policy_replay, priority

_JOBS: Final = "workspaces/<slug:ws>/jobs"
_JOB: Final = f"{_JOBS}/<str:job>"

urlpatterns = [
    path(_JOBS, views.JobsView.as_view(), name="jobs"),
    path(_JOB, views.DeletableJobView.as_view(), name="job"),
    path(f"{_JOB}/events", views.JobEventsView.as_view(), name="job-events"),
    path(f"{_JOB}/tasks", views.JobTasksView.as_view(), name="job-tasks"),
    path(f"{_JOB}/logs", logs.JobLogsView.as_view(), name="job-logs"),
    path(f"{_JOB}/pod-events", pod_events.JobPodEventsView.as_view(), name="job-pod-events"),
    path(f"{_JOB}/cancel", actions.JobCancelView.as_view(), name="job-cancel"),
    path(f"{_JOB}/suspend", actions.JobSuspendView.as_view(), name="job-suspend"),
    path(f"{_JOB}/resume", actions.JobResumeView.as_view(), name="job-resume"),
    path(f"{_JOB}/restart", actions.JobRestartView.as_view(), name="job-restart"),
    path(f"{_JOB}/exchange", actions.JobExchangeView.as_view(), name="job-exchange"),
    path(f"{_JOB}/priority", actions.JobPriorityView.as_view(), name="job-priority"),
    path(f"{_JOB}/tags", actions.JobTagsView.as_view(), name="job-tags"),
    path(f"{_JOB}/resize", resize.JobResizeView.as_view(), name="job-resize"),
    path(f"{_JOB}/extend", idle.JobExtendView.as_view(), name="job-extend"),
    path(f"{_JOB}/clone", actions.JobCloneView.as_view(), name="job-clone"),
    path(f"{_JOB}/check", check.JobCheckView.as_view(), name="job-check"),
    path(f"{_JOB}/explain", explain.JobExplainView.as_view(), name="job-explain"),
    path(
        f"{_JOB}/expected-start", start_prediction.JobExpectedStartView.as_view(), name="job-expected-start"
    ),
    path("workspaces/<slug:ws>/startable-jobs", startable.StartableJobsView.as_view(), name="startable-jobs"),
    path("workspaces/<slug:ws>/job-templates", job_template.JobTemplatesView.as_view(), name="job-templates"),
    path(
        "workspaces/<slug:ws>/job-templates/<uuid:template>",
        job_template.JobTemplateView.as_view(),
        name="job-template",
    ),
    path("events", stream.EventStreamView.as_view(), name="events"),
    path("workspaces/<slug:ws>/job-actions", actions.JobActionsView.as_view(), name="job-actions"),
    path(
        "workspaces/<slug:ws>/job-submissions",
        submissions.JobSubmissionsView.as_view(),
        name="job-submissions",
    ),
    path("admin/jobs", views.AllJobsView.as_view(), name="admin-jobs"),
    path("admin/priority-classes", priority.PriorityClassesView.as_view(), name="admin-priority-classes"),
    path(
        "admin/priority-classes/<str:name>", priority.PriorityClassView.as_view(), name="admin-priority-class"
    ),
    path("admin/policies", policy.PoliciesView.as_view(), name="admin-policies"),
    path("tenants/<uuid:tenant>/policy", policy.TenantPolicyView.as_view(), name="tenant-policy"),
    path(
        "tenants/<uuid:tenant>/policy/check",
        policy_check.PolicyCheckView.as_view(),
        name="tenant-policy-check",
    ),
    path("workspaces/<slug:ws>/policy", policy.WorkspacePolicyView.as_view(), name="workspace-policy"),
    path("admin/priority-grants", priority.PriorityGrantsView.as_view(), name="admin-priority-grants"),
    path(
        "admin/priority-grants/<uuid:grant>",
        priority.PriorityGrantView.as_view(),
        name="admin-priority-grant",
    ),
    path("admin/policy-replays", policy_replay.ReplaysView.as_view(), name="admin-policy-replays"),
    path(
        "admin/policy-replays/<uuid:replay>",
        policy_replay.ReplayView.as_view(),
        name="admin-policy-replay",
    ),
    path(
        "admin/policy-replays/<uuid:replay>/cancel",
        policy_replay.ReplayCancelView.as_view(),
        name="admin-policy-replay-cancel",
    ),
    path("admin/nodes/<str:name>/holds", operator.NodeHoldsView.as_view(), name="admin-node-holds"),
    path("admin/nodes/<str:name>/drain", node_drain.NodeDrainView.as_view(), name="admin-node-drain"),
    path("admin/devices/<str:uuid>/holds", operator.DeviceHoldsView.as_view(), name="admin-device-holds"),
]
