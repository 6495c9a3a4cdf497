"""Reading the history of quotas."""

from __future__ import annotations

import uuid

from django.db.models import Prefetch, QuerySet
from django.utils.translation import gettext as _

from foundation.core.actor import Actor
from foundation.core.errors import NotFound
from quotas.models import QuotaChange, QuotaRevision
from quotas.selectors.sight import quota_tenants
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


def quota_history(viewer: Actor, tenant: Tenant) -> QuerySet[QuotaRevision]:
    """Return the revisions that changed the tenant or something below it, newest first.

    Their `changes` contain only changes of these tenants, so that changes of other tenants stay hidden.
    Raises: NotFound, PermissionDenied.
    """
    permissions.require_permission(viewer, Permission.QUOTA_VIEW, tenant)
    below = QuotaChange.unscoped.filter(node__tenant__path__startswith=tenant.path)
    shown = below.select_related("node__tenant__parent", "node__queue", "flavor__cluster").order_by("pk")
    revisions = QuotaRevision.unscoped.filter(pk__in=below.values("revision"))
    return revisions.prefetch_related(Prefetch("changes", queryset=shown), "reverted_by")


def quota_revision_get(viewer: Actor, pk: uuid.UUID) -> QuotaRevision:
    """Return one revision, with those of its `changes` that the viewer may see.

    Raises: NotFound when there are none.
    """
    seen = QuotaChange.unscoped.filter(node__tenant__in=quota_tenants(viewer))
    shown = seen.select_related("node__tenant__parent", "node__queue", "flavor__cluster").order_by("pk")
    revisions = QuotaRevision.unscoped.filter(pk=pk, pk__in=seen.values("revision"))
    revision = revisions.prefetch_related(Prefetch("changes", queryset=shown), "reverted_by").first()
    if revision is None:
        raise NotFound(_("Quota change not found."))
    return revision
