"""What the fault run knows beforehand: a sample for every check, and what cannot be noticed, and why."""

from __future__ import annotations

from typing import Final

SAMPLE: Final[dict[str, str]] = {
    "quotas.selectors.override:override_list:quota_tenants:1": "GET api/v1/admin/overrides/{override}",
    "quotas.selectors.quota_request:quota_requests:quota_tenants:1": (
        "GET api/v1/admin/quota-requests/{quota_request}"
    ),
    "quotas.selectors.budget:budget_get:require:1": "GET api/v1/admin/budgets/{budget}",
    "tenants.selectors.access_key:access_key_list:by user_id:1": "DELETE api/v1/me/keys/{prefix} of another",
    "tenants.selectors.member:member_get:by tenant:1": "GET api/v1/tenants/{tenant}/members/{member}",
    "quotas.selectors.quota_history:quota_revision_get:quota_tenants:1": (
        "POST api/v1/admin/quota-revisions/{revision}/revert"
    ),
    "tenants.services.tenant:tenant_rename:require:1": "PATCH api/v1/tenants/{tenant}",
    "tenants.services.member:member_set:require_cover:1": "POST api/v1/tenants/{tenant}/members as editor",
    "scheduling.services.acting:require_stop:require:1": (
        "POST api/v1/workspaces/{ws}/jobs/{job}/cancel of another"
    ),
    "frontend.pages.quotas.page:workspace_quota:login_required:1": "GET w/{workspace}/quota",
    "tenants.one_time_passwords:PasswordChosen.has_permission:require_password_chosen:1": (
        "GET api/v1/workspaces/{ws} by a session"
    ),
    "frontend.pages.ops.roles:roles:require:1": "GET ops/tenants/{tenant}/roles",
}
"""Checks, and a row by which it is noticed that they are gone."""

_LINKS: Final = "it decides which links, forms or choices a page offers; what they lead to asks again"
_DATA: Final = "it chooses among rows of one workspace or account that the caller was let into before"
_INNER: Final = "the rule beside it in the same function is at least as strict for every actor of the matrix"
_TOLD: Final = "it decides how much of a sum or of an effect is told, which no row of the table looks at"
ARGUED: Final[dict[str, str]] = {
    **dict.fromkeys(
        (
            "frontend.pages.asking.requests:_show:may:1",
            "frontend.pages.frame:_last_workspace:visible_workspaces:1",
            "frontend.pages.frame:frame:granted_anywhere:1",
            "frontend.pages.frame:frame:granted_anywhere:2",
            "frontend.pages.frame:frame:may:1",
            "frontend.pages.home:home:may:1",
            "frontend.pages.keys:_keys:granted:1",
            "frontend.pages.keys:_keys:granted_anywhere:1",
            "frontend.pages.ops.tenant_tree:_targets:may:1",
        ),
        _LINKS,
    ),
    **dict.fromkeys(
        (
            "frontend.pages.asking.limits:_set:by user:1",
            "quotas.selectors.quota:workspace_quota:by tenant:1",
            "quotas.selectors.quota_table:quota_nodes:by tenant:1",
            "scheduling.api.stream:_scope:by job__workspace:1",
            "scheduling.selectors.job:job_counts:by workspace:1",
            "scheduling.selectors.row:queue_work:by workspace:1",
            "scheduling.selectors.workspace_policy:policy_own:by tenant:1",
            "tenants.selectors.role:role_get:by tenant:1",
        ),
        _DATA,
    ),
    **dict.fromkeys(
        (
            "quotas.services.queue_settings:queue_update:_require_above:1",
            "quotas.services.quota_request:_require_all:require:1",
            "tenants.api.base:WorkspaceView.before_body:granted:1",
            "tenants.selectors.access_key:access_key_list:is_over:1",
            "tenants.services.access_key:_require_owner:require:1",
            "tenants.services.account:_require_over:require:1",
            "tenants.services.access_key:_require_owner:require_manage:1",
            "tenants.services.access_key:_require_owner:require_over:1",
            "tenants.services.group:_require:require:1",
            "tenants.services.service_account:require_manage:require:1",
            "tenants.services.service_account:require_manage:require_over:1",
        ),
        _INNER,
    ),
    **dict.fromkeys(
        (
            "allotment.denials:DenialMiddleware._note:may:1",
            "quotas.services.quota_preview:quota_preview:visible_workspace_ids:1",
            "quotas.services.quota_request:requests_to_decide:granted_anywhere:1",
            "quotas.tenant_tree:QuotaTreeWatcher.foresee_archive:may:1",
            "quotas.tenant_tree:QuotaTreeWatcher.foresee_move:may:1",
            "scheduling.tenant_tree:_counts:may:1",
            "telemetry.series.idle:idle_allocated:visible_workspace_ids:1",
            "telemetry.series.now:_visible:visible_workspace_ids:1",
            "tenants.selectors.rights:effective_list:may:1",
        ),
        _TOLD,
    ),
    **dict.fromkeys(
        (
            "quotas.services.quota:require_decider:may:2",
            "quotas.services.quota:require_decider:refusal:1",
        ),
        "it chooses between two sentences of one refusal",
    ),
    "tenants.one_time_passwords:PasswordChosen.has_permission:require_password_chosen:1": (
        "every request meets it, and too few of them are asked again; the sample asks the one that shows it"
    ),
}
"""Checks that may be taken away without the matrix noticing, with the reason."""
