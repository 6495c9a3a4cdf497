"""The known results of the fault run: a sample row for every check, and checks that cannot be noticed."""

from __future__ import annotations

from typing import Final

SAMPLE: Final[dict[str, str]] = {
    "quotas.selectors.changes.override:override_keys:quota_tenants:1": (
        "GET api/v1/admin/overrides/{override}"
    ),
    "quotas.selectors.changes.quota_request:quota_requests:quota_tenants:1": (
        "GET api/v1/admin/quota-requests/{quota_request}"
    ),
    "quotas.selectors.tenants.budget:budget_get:require_permission:1": "GET api/v1/admin/budgets/{budget}",
    "tenants.selectors.access_key:access_key_list:by user_id:1": "DELETE api/v1/me/keys/{prefix} of another",
    "tenants.selectors.member:member_get:by tenant:1": "GET api/v1/tenants/{tenant}/members/{member}",
    "quotas.selectors.changes.quota_history:quota_revision_get:quota_tenants:1": (
        "POST api/v1/admin/quota-revisions/{revision}/revert"
    ),
    "tenants.services.tenant:tenant_rename:require_permission:1": "PATCH api/v1/tenants/{tenant}",
    "tenants.services.member:member_set:require_cover:1": "POST api/v1/tenants/{tenant}/members as editor",
    "scheduling.services.jobs.acting:require_stop:require_permission:1": (
        "POST api/v1/workspaces/{ws}/jobs/{job}/cancel of another"
    ),
    "frontend.pages.quotas.workspace:workspace_quota:login_required:1": "GET w/{workspace}/quota",
    "tenants.sign_in.one_time_passwords:PasswordChosen.has_permission:require_password_chosen:1": (
        "GET api/v1/workspaces/{ws} by a session"
    ),
    "frontend.pages.tenancy.roles:show_roles:require_permission:1": "GET ops/tenants/{tenant}/roles",
    "tenants.api.responses.streams:signed_in_still:refusal:1": (
        "GET api/v1/events of a workspace after losing the key"
    ),
    "tenants.api.requests.base:WorkspaceView.may_see_again:require_permission:1": (
        "POST api/v1/workspaces/{ws}/jobs/{job}/cancel again without the right here"
    ),
}
"""Checks, each with a row that fails without it."""

BEHIND: Final[dict[str, tuple[str, ...]]] = {
    "clusters.services.flavor:flavors_found:require_permission:1": (
        "clusters.selectors.flavor:cluster_get:require_permission:1",
        "clusters.services.flavor:flavor_add:require_permission:1",
    ),
    "quotas.services.requests.quota_request:requests_to_decide:permissions_anywhere:1": (
        "quotas.services.requests.quota_request:_may_decide:has_permission:1",
    ),
}
"""Checks that repeat earlier ones: they must be noticed when the earlier ones are removed."""

_TYPE: Final = (
    "it tells the type checker that an account is there: login_required of every page and IsAuthenticated of "
    "every view, each of which is noticed, let nobody else in, and nobody has no roles"
)
ARGUED: Final[dict[str, str]] = {
    "frontend.shell.page_shell:get_viewer:refusal:1": _TYPE,
    "tenants.api.requests.base:PlatformView.viewer:refusal:1": _TYPE,
    "quotas.selectors.tables.quota_table:quota_nodes:by tenant:1": (
        "it tells in which cells a tenant has quota, for the choice on its page "
        "(frontend.pages.quotas.page:_cells); the world has one cell, and what is shown of any is asked for "
        "in quotas.selectors.tables.quota_table:tenant_quota_table, which is noticed"
    ),
    "scheduling.selectors.jobs.job::by workspace:3": (
        "it counts the jobs of the workspace whose page is shown, for the side bar; count_live_jobs requires "
        "JOB_VIEW there, and tests/unit/scheduling/services/test_job_selectors.py counts two workspaces"
    ),
    "scheduling.selectors.jobs.job_filter::by workspace:1": (
        "a queue is looked for by its name among those of the workspace; which jobs are shown is bound in "
        "scheduling.selectors.jobs.job_filter:find_sight:by workspace, which is noticed"
    ),
    "scheduling.selectors.jobs.row:queue_work:by workspace:1": (
        "it counts jobs by the id of their queue, and frontend.pages.jobs.workspace_overview takes the counts"
        " of the queues it shows, which quotas.selectors.queues.queue:queue_list binds, which is noticed"
    ),
    **dict.fromkeys(
        (
            "telemetry.series.readings.sight:job_tenants:has_permission:1",
            "telemetry.series.readings.sight:job_tenants:tenants_with:1",
        ),
        "pages ask for readings of jobs that they were shown before, by operator_required or job_query, "
        "which are noticed; tests/integration/telemetry/test_now.py asks it with roles of one permission",
    ),
    **dict.fromkeys(
        (
            "tenants.services.tenant_move:_require_over_both:has_permission:1",
            "tenants.services.tenant_move:_require_over_both:refusal:1",
        ),
        "who edits tenants in the folder right above a tenant, and not further up, is stopped by "
        "require_cover in every row, as somebody always has a role further up; "
        "tests/integration/tenants/test_move_rights.py leaves a department where nobody has one",
    ),
    "scheduling.selectors.jobs.job_sight:jobs_below:by workspace__in:1": (
        "it narrows a list to one tenant; which jobs are shown is bound in "
        "scheduling.selectors.jobs.job_sight:jobs_in_sight, which is noticed"
    ),
    **dict.fromkeys(
        (
            "scheduling.selectors.jobs.job_sight:job_pools:by queue__workspace__in:1",
            "scheduling.selectors.jobs.job_sight:job_pools:has_permission:1",
            "scheduling.selectors.jobs.job_sight:job_pools:tenants_with:1",
        ),
        "the world has one pool, which all queues use; tests/unit/frontend/pages/test_all_jobs.py has one"
        " that no queue in sight uses",
    ),
    "tenants.services.access_key:_require_owner:require_permission:1": (
        "no page, view or command names the key of another person, which access_key_get does not find; "
        "tests/integration/tenants/test_accounts_above.py asks the service"
    ),
}
"""Checks that can be removed unnoticed, each with the reason."""
