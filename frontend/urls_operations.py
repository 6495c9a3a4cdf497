"""Addresses of the operators' pages, mounted below `ops/`."""

from __future__ import annotations

from django.urls import path

from frontend.pages.alerts import alert_list, channels, rules, silences
from frontend.pages.all_jobs import batch as all_jobs_batch
from frontend.pages.all_jobs import page as all_jobs
from frontend.pages.operations import audit, source_list, sources, system
from frontend.pages.operations.nodes import gpu, gpu_list, node, node_list
from frontend.pages.operations.overview import efficiency, overview, use_hours
from frontend.pages.people import user_batch, users
from frontend.pages.policies import (
    cells,
    job_policies,
    policy_list,
    priorities,
    priority_grants,
    queue_charts,
    queue_page,
    queues,
)
from frontend.pages.quotas import edit, file, history, page, pictures, tree, tree_edit
from frontend.pages.replays import replay_list, replay_new, replay_page
from frontend.pages.requests import budgets, inbox, loans, own_requests
from frontend.pages.setup import checklist, clusters, pool_list, pools
from frontend.pages.teams import team_new
from frontend.pages.tenancy import groups, members, roles, tenant_list, tenant_tree
from frontend.pages.usage import platform_usage, preemptions, prices

urlpatterns = [
    path("overview", overview.show_overview, name="ops-overview"),
    path("overview/live", overview.overview_live, name="ops-overview-live"),
    path("overview/hours/<slug:kind>", use_hours.overview_hours, name="ops-overview-hours"),
    path("overview/charts/<slug:kind>", overview.overview_chart, name="ops-overview-chart"),
    path("jobs", all_jobs.show_jobs, name="ops-jobs"),
    path("jobs/batch", all_jobs_batch.post_batch, name="ops-jobs-batch"),
    path("quotas", page.ops_quotas, name="ops-quotas"),
    path("quotas/import", file.quota_file, name="ops-quota-file"),
    path("quotas/tree", tree.show_tree, name="ops-quota-tree"),
    path("quotas/charts", pictures.show_pictures, name="ops-quota-charts"),
    path("quotas/tree/rows/<uuid:node>", tree.tree_rows, name="ops-quota-tree-rows"),
    path("quotas/tree/<uuid:flavor>/check", tree_edit.check_batch, name="ops-quota-tree-check"),
    path("quotas/tree/<uuid:flavor>/save", tree_edit.save_batch, name="ops-quota-tree-save"),
    path("quotas/<uuid:node>/<uuid:flavor>", edit.save, name="ops-quota-save"),
    path("quotas/<uuid:node>/<uuid:flavor>/check", edit.check, name="ops-quota-check"),
    path("quotas/revisions/<uuid:revision>/revert", history.post_revert, name="ops-quota-revert"),
    path("requests", inbox.show_inbox, name="ops-requests"),
    path("requests/<uuid:quota_request>", inbox.show_request, name="ops-request"),
    path("requests/<uuid:quota_request>/effect", inbox.show_effect, name="ops-request-effect"),
    path("loans", loans.show_loans, name="ops-loans"),
    path("budgets", budgets.show_budgets, name="ops-budgets"),
    path("tenants", tenant_list.show_tenants, name="ops-tenants"),
    path("clusters", clusters.show_clusters, name="ops-clusters"),
    path("clusters/new", clusters.add_cluster, name="ops-cluster-new"),
    path("clusters/<slug:cluster>", clusters.show_cluster, name="ops-cluster"),
    path("flavors", pool_list.show_pools, name="ops-flavors"),
    path("flavors/<slug:cluster>/<slug:flavor_name>", pools.show_pool, name="ops-flavor"),
    path("setup/dismiss", checklist.dismiss_checklist, name="ops-setup-dismiss"),
    path("teams/new", team_new.team_new, name="ops-team-new"),
    path("teams/new/check", team_new.team_check, name="ops-team-check"),
    path("tenants/<uuid:tenant>", tenant_tree.show_tenant, name="ops-tenant"),
    path("tenants/<uuid:tenant>/requests", own_requests.folder_requests, name="ops-tenant-requests"),
    path("tenants/<uuid:tenant>/members", members.tenant_members, name="ops-tenant-members"),
    path(
        "tenants/<uuid:tenant>/members/permissions", members.tenant_permissions, name="ops-tenant-permissions"
    ),
    path("tenants/<uuid:tenant>/roles", roles.show_roles, name="ops-tenant-roles"),
    path("roles", roles.show_roles, name="ops-roles"),
    path("users", users.show_users, name="ops-users"),
    path("users/batch", user_batch.post_batch, name="ops-users-batch"),
    path("users/<uuid:user>", users.show_user, name="ops-user"),
    path("groups", groups.show_groups, name="ops-groups"),
    path("groups/<uuid:group>", groups.show_group, name="ops-group"),
    path("policies", policy_list.show_policies, name="ops-policies"),
    path("policies/<uuid:tenant>", job_policies.show_policy, name="ops-policy"),
    path("policies/<uuid:tenant>/check", job_policies.check_policy, name="ops-policy-check"),
    path("priorities", priorities.show_priorities, name="ops-priorities"),
    path("priorities/grants", priority_grants.show_grants, name="ops-priority-grants"),
    path("queues", queues.show_queues, name="ops-queues"),
    path("queues/<slug:workspace>/<slug:queue>", queue_page.show_queue, name="ops-queue"),
    path("queues/<slug:workspace>/<slug:queue>/live", queue_page.queue_live, name="ops-queue-live"),
    path(
        "queues/<slug:workspace>/<slug:queue>/charts/<slug:kind>",
        queue_charts.queue_chart,
        name="ops-queue-chart",
    ),
    path("queues/<slug:workspace>/<slug:queue>/check", queue_page.check_queue, name="ops-queue-check"),
    path("cells", cells.show_cells, name="ops-cells"),
    path("cells/check", cells.check_sharing, name="ops-cells-check"),
    path("replays", replay_list.show_replays, name="ops-replays"),
    path("replays/new", replay_new.new_replay, name="ops-replay-new"),
    path("replays/<uuid:replay>", replay_page.show_replay, name="ops-replay"),
    path("replays/<uuid:replay>/live", replay_page.replay_live, name="ops-replay-live"),
    path("alerts", alert_list.ops_alerts, name="ops-alerts"),
    path("alerts/rules", rules.ops_rules, name="ops-alert-rules"),
    path("alerts/channels", channels.ops_channels, name="ops-alert-channels"),
    path("alerts/silences", silences.ops_silences, name="ops-silences"),
    path("reports", platform_usage.platform_usage, name="ops-reports"),
    path("reports/preemptions", preemptions.platform_preemptions, name="ops-preemptions"),
    path("prices", prices.show_prices, name="ops-prices"),
    path("audit", audit.show_audit, name="ops-audit"),
    path("sources", source_list.show_sources, name="ops-sources"),
    path("sources/agents", source_list.show_agents, name="ops-source-agents"),
    path("sources/<uuid:source>", sources.show_source, name="ops-source"),
    path("sources/<uuid:source>/live", sources.source_live, name="ops-source-live"),
    path("system", system.show_system, name="ops-system"),
    path("system/live", system.system_live, name="ops-system-live"),
    path("efficiency", efficiency.show_efficiency, name="ops-efficiency"),
    path("efficiency/live", efficiency.efficiency_live, name="ops-efficiency-live"),
    path("gpus", gpu_list.show_gpus, name="ops-gpus"),
    # A GPU that its node only counts is named by its position, with slashes.
    path("gpus/<path:uuid>/live", gpu.gpu_live, name="ops-gpu-live"),
    path("gpus/<path:uuid>/charts/<slug:kind>", gpu.gpu_chart, name="ops-gpu-chart"),
    path("gpus/<path:uuid>", gpu.show_gpu, name="ops-gpu"),
    path("nodes", node_list.show_nodes, name="ops-nodes"),
    path("nodes/<str:name>", node.show_node, name="ops-node"),
    path("nodes/<str:name>/live", node.node_live, name="ops-node-live"),
    path("nodes/<str:name>/charts/<slug:kind>", node.node_chart, name="ops-node-chart"),
]
