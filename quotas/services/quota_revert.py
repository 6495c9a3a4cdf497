"""Reverting a quota change, which is a change itself."""

from __future__ import annotations

from collections.abc import Sequence

from django.db import transaction
from django.utils.translation import gettext as _

from clusters.models import Cell
from foundation.core.actor import Actor
from foundation.core.errors import Conflict
from foundation.core.quantities import Resource
from quotas.distribution.division import Keep
from quotas.models import QuotaChange, QuotaChangeSource, QuotaNode, QuotaRevision
from quotas.selectors.tables.node_names import node_names
from quotas.services.quota import Shrink, quota_change, require_decider
from quotas.services.quota_plan import NodeAmounts, QuotaAmount
from tenants.access import permissions
from tenants.access.permissions import Permission


@transaction.atomic
def quota_revert(
    *, acting_user: Actor, revision: QuotaRevision, reason: str = "", shrink: Shrink | None = None
) -> QuotaRevision | None:
    """Set every limit of a revision back to its value before.

    Raises: as `quota_change`; Conflict when one of the limits was changed again since: that change has to be
    reverted first, so that no later change is undone unseen.
    """
    Cell.unscoped.select_for_update().get(pk=revision.cell_id)
    return quota_change(
        acting_user=acting_user,
        cell_id=revision.cell_id,
        changes=revert_changes(acting_user, revision),
        reason=reason,
        shrink=shrink,
        on_top=revision.on_top,
        source=QuotaChangeSource.REVERT,
        reverts=revision,
    )


def revert_changes(acting_user: Actor, revision: QuotaRevision) -> list[NodeAmounts]:
    """Compute the changes that revert a revision, for a user who decides about all of it.

    Raises: NotFound, PermissionDenied; Conflict when a limit was changed again since, and for a loan, which
    is ended instead.
    """
    if revision.source in (QuotaChangeSource.LOAN, QuotaChangeSource.LOAN_RETURNED):
        message = _("Temporary quota can't be reverted here. End it instead.")
        raise Conflict(message, code="REVISION_OF_LOAN")
    changes = list(
        QuotaChange.unscoped.filter(revision=revision)
        .select_related("node__tenant__parent", "flavor__cluster")
        .order_by("pk")
    )
    # The permission is checked first: other users may not learn whether a quota was changed since.
    for change in changes:
        permissions.require_permission(acting_user, Permission.QUOTA_VIEW, change.node.tenant)
        if not revision.on_top:
            require_decider(acting_user, change.node, limits=_changes_limits(change))
    if revision.on_top:
        permissions.require_permission(acting_user, Permission.QUOTA_EDIT)
    _check_latest(revision, changes)
    by_node: dict[QuotaNode, list[QuotaAmount]] = {}
    for change in changes:
        borders = (
            _back(change.borrowing_before, change.borrowing_after),
            _back(change.lending_before, change.lending_after),
        )
        amount = QuotaAmount(change.flavor, Resource(change.resource), change.nominal_before, *borders)
        by_node.setdefault(change.node, []).append(amount)
    return [NodeAmounts(node, amounts) for node, amounts in by_node.items()]


def _changes_limits(change: QuotaChange) -> bool:
    """Return whether the revert changes limits of borrowing or lending, not only the nominal."""
    before = (change.borrowing_before, change.lending_before)
    return before != (change.borrowing_after, change.lending_after)


def _back(before: int | None, after: int | None) -> int | Keep | None:
    return Keep.AS_IS if before == after else before


def _check_latest(revision: QuotaRevision, changes: Sequence[QuotaChange]) -> None:
    for change in changes:
        later = QuotaChange.unscoped.filter(
            node=change.node, flavor=change.flavor, resource=change.resource, pk__gt=change.pk
        ).exclude(revision=revision)
        if later.exists():
            message = _("%(node)s has a later quota change. Revert that one first.")
            raise Conflict(
                message % {"node": node_names([change.node_id])[change.node_id]}, code="QUOTA_CHANGED_SINCE"
            )
