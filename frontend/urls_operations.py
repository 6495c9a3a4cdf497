"""Addresses of the operators' pages, mounted below `ops/`."""

from __future__ import annotations

from django.urls import path

from frontend.pages.alerts import alert_list, channels, rules, silences
from frontend.pages.operations import audit, efficiency, gpu, gpu_list, node, node_list, overview, sources
from frontend.pages.people import users
from frontend.pages.policies import cells, job_policies, priorities, queues
from frontend.pages.quotas import edit, file, history, page
from frontend.pages.requests import budgets, inbox, loans, own_requests
from frontend.pages.teams import team_new
from frontend.pages.tenancy import groups, roles, tenant_tree
from frontend.pages.usage import platform_usage, prices

urlpatterns = [
    path("overview", overview.overview, name="ops-overview"),
    path("overview/live", overview.overview_live, name="ops-overview-live"),
    path("overview/charts/<slug:kind>", overview.overview_chart, name="ops-overview-chart"),
    path("quotas", page.ops_quotas, name="ops-quotas"),
    path("quotas/import", file.quota_file, name="ops-quota-file"),
    path("quotas/<uuid:node>/<uuid:flavor>", edit.save, name="ops-quota-save"),
    path("quotas/<uuid:node>/<uuid:flavor>/check", edit.check, name="ops-quota-check"),
    path("quotas/revisions/<uuid:revision>/revert", history.revert, name="ops-quota-revert"),
    path("requests", inbox.inbox, name="ops-requests"),
    path("requests/<uuid:quota_request>", inbox.one, name="ops-request"),
    path("requests/<uuid:quota_request>/effect", inbox.effect, name="ops-request-effect"),
    path("loans", loans.loans, name="ops-loans"),
    path("budgets", budgets.budgets, name="ops-budgets"),
    path("tenants", tenant_tree.tree, name="ops-tenants"),
    path("teams/new", team_new.team_new, name="ops-team-new"),
    path("teams/new/check", team_new.team_check, name="ops-team-check"),
    path("tenants/<uuid:tenant>", tenant_tree.tenant, name="ops-tenant"),
    path("tenants/<uuid:tenant>/requests", own_requests.folder_requests, name="ops-tenant-requests"),
    path("tenants/<uuid:tenant>/roles", roles.roles, name="ops-tenant-roles"),
    path("roles", roles.roles, name="ops-roles"),
    path("users", users.users, name="ops-users"),
    path("users/<uuid:user>", users.user, name="ops-user"),
    path("groups", groups.groups, name="ops-groups"),
    path("groups/<uuid:group>", groups.group, name="ops-group"),
    path("policies", job_policies.policies, name="ops-policies"),
    path("policies/<uuid:tenant>", job_policies.policy, name="ops-policy"),
    path("priorities", priorities.priorities, name="ops-priorities"),
    path("queues", queues.queues, name="ops-queues"),
    path("queues/<slug:workspace>/<slug:queue>", queues.queue, name="ops-queue"),
    path("cells", cells.cells, name="ops-cells"),
    path("alerts", alert_list.ops_alerts, name="ops-alerts"),
    path("alerts/rules", rules.ops_rules, name="ops-alert-rules"),
    path("alerts/channels", channels.ops_channels, name="ops-alert-channels"),
    path("alerts/silences", silences.ops_silences, name="ops-silences"),
    path("reports", platform_usage.platform_usage, name="ops-reports"),
    path("prices", prices.prices, name="ops-prices"),
    path("audit", audit.audit, name="ops-audit"),
    path("sources", sources.sources, name="ops-sources"),
    path("sources/live", sources.sources_live, name="ops-sources-live"),
    path("sources/<uuid:source>", sources.source, name="ops-source"),
    path("sources/<uuid:source>/live", sources.source_live, name="ops-source-live"),
    path("efficiency", efficiency.efficiency, name="ops-efficiency"),
    path("efficiency/live", efficiency.efficiency_live, name="ops-efficiency-live"),
    path("gpus", gpu_list.gpus, name="ops-gpus"),
    path("gpus-live", gpu_list.gpus_live, name="ops-gpus-live"),
    # A GPU that its node only counts is named by a place, with slashes.
    path("gpus/<path:uuid>/live", gpu.gpu_live, name="ops-gpu-live"),
    path("gpus/<path:uuid>/charts/<slug:kind>", gpu.gpu_chart, name="ops-gpu-chart"),
    path("gpus/<path:uuid>", gpu.gpu, name="ops-gpu"),
    path("nodes", node_list.nodes, name="ops-nodes"),
    path("nodes-live", node_list.nodes_live, name="ops-nodes-live"),
    path("nodes/<str:name>", node.node, name="ops-node"),
    path("nodes/<str:name>/live", node.node_live, name="ops-node-live"),
    path("nodes/<str:name>/charts/<slug:kind>", node.node_chart, name="ops-node-chart"),
]
