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
    "frontend.pages.ops.roles:roles:require:1": "GET ops/tenants/{tenant}/roles",
}
"""Checks, and a row by which it is noticed that they are gone."""

ARGUED: Final[dict[str, str]] = {}
"""Checks that may be taken away without the matrix noticing, with the reason."""
