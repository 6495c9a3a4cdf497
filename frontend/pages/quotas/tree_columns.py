"""The columns of the quota tree that readers can select, and the values of columns that are not quota."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from django.http import HttpRequest
from django.utils.translation import gettext_lazy

from foundation.core.quantities import Resource
from frontend.lists.choice import read_choice
from frontend.lists.declaration import ListColumn, ListDeclaration
from frontend.pages.quotas.tree_use import TreeUse
from frontend.texts import formats
from frontend.texts.allocated_use import AllocatedUse
from quotas.selectors.tables.quota_tree import (
    MoreRows,
    QuotaTreeRow,
    QuotaTreeView,
    TreeRows,
)
from tenants.models import User
from tenants.selectors.member import list_admins

_OWNERS_MAX: Final = 2
_LABELS: Final = (
    ("name", gettext_lazy("Tenant"), True),
    ("owner", gettext_lazy("Owner"), False),
    ("quota", gettext_lazy("Quota"), True),
    ("nominal", gettext_lazy("Nominal quota"), True),
    ("unassigned", gettext_lazy("Unassigned"), True),
    ("allocated", gettext_lazy("Allocated"), True),
    ("rate", gettext_lazy("Allocation rate"), False),
    ("used", gettext_lazy("Used"), True),
    ("borrowed", gettext_lazy("Borrowed"), True),
    ("lent", gettext_lazy("Lent"), True),
    ("free", gettext_lazy("Free"), False),
    ("pending", gettext_lazy("Pending"), True),
    ("others", gettext_lazy("CPU and memory"), True),
)
TREE: Final = ListDeclaration(
    key="quota-tree",
    title=gettext_lazy("Quota tree"),
    columns=[ListColumn(key=key, label=label, shown=shown, text=str) for key, label, shown in _LABELS],
)
_ALWAYS: Final = {"name", "nominal"}
"""The columns that are always shown."""


def read_columns(request: HttpRequest) -> frozenset[str]:
    """Return the columns that the reader selected."""
    return frozenset({*read_choice(request, TREE).columns, *_ALWAYS})


class TreeFacts:
    """Owners, measured use and pending jobs of the rows. Only what shown columns need is read."""

    def __init__(
        self,
        viewer: User,
        view: QuotaTreeView,
        columns: frozenset[str],
        rows: TreeRows,
        resource: Resource,
    ) -> None:
        self.columns = columns
        self._viewer, self._view, self._resource = viewer, view, resource
        tenants = {row.tenant_id for row in rows if not isinstance(row, MoreRows) and not row.queue}
        self._owners = list_admins(viewer=viewer, tenants=tenants) if "owner" in columns else {}
        self._use = TreeUse(viewer, view, resource) if "used" in columns else None

    def describe_owner(self, row: QuotaTreeRow) -> str:
        """Return the admins of a tenant itself; the admins above it decide about its quota."""
        names = [] if row.queue else self._owners.get(row.tenant_id, [])
        more = "…" if len(names) > _OWNERS_MAX else ""
        return ", ".join(names[:_OWNERS_MAX]) + more or formats.MISSING

    def find_use(self, row: QuotaTreeRow) -> AllocatedUse | None:
        """Return the use at and below a node, in the resource's unit."""
        if self._use is None:
            return None
        return self._use.find_use(row.node_id, row.tenant_id, row.amounts[self._resource].reserved)

    def explain_use(
        self, row: QuotaTreeRow, use: AllocatedUse | None, format_amount: Callable[[int], str]
    ) -> str:
        """Return why the use of a node is unknown or known only in part; empty otherwise."""
        return self._use.explain_use(use, row.tenant_id, format_amount) if self._use else ""

    def find_pending(self, row: QuotaTreeRow, resource: Resource) -> int:
        """Return the GPUs, CPU or memory that pending jobs at and below a node request."""
        return self._view.pending_at(row.node_id, resource) if "pending" in self.columns else 0
