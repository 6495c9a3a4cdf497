"""Lists write their rows without asking each field; the rows are those that the fields declare."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import timedelta
from typing import Any

from rest_framework.serializers import Serializer

from clusters.api.serializers import DeviceSerializer, NodeSerializer
from clusters.models import Node, NodeCordon
from clusters.selectors.node import device_list, node_list
from foundation.core import clock
from foundation.sql import row_scope
from quotas.api.budget_views import BudgetSerializer
from quotas.api.override_views import OverrideSerializer
from quotas.models import Override
from quotas.selectors.changes.override import overrides_in_sight
from quotas.selectors.tenants.budget import budget_list
from scheduling.api.policies.policy import PolicySerializer
from scheduling.models import WorkspacePolicy
from scheduling.selectors.policies.workspace_policy import policy_list
from tenants.api.shapes import TenantSerializer
from tenants.models import Tenant
from tenants.selectors.tenant import tenant_list
from tests.api.test_query_budget import Filled
from tests.builders.world import World


def compare_rows(shape: type[Serializer[Any]], rows: Iterable[Any]) -> int:
    """Compare each row with what its fields declare; returns how many there are."""
    found = list(rows)
    for row in found:
        declared = Serializer.to_representation(shape(), row)
        written = shape(row).data
        assert written == declared
        assert list(written) == list(declared)
    return len(found)


def test_lists_write_what_their_fields_declare(w: World) -> None:
    filled = Filled(w)
    filled.fill(2)
    now = clock.now()
    node = w.nodes[0]
    Node.unscoped.filter(pk=node.pk).update(
        labels={"zone": "a"}, taints=[{"key": "gpu", "effect": "NoSchedule"}], observed_at=now, pods=110
    )
    NodeCordon.unscoped.create(
        node=node, schedulable=False, reason="disk", requested_by="ops", requested_at=now
    )
    Override.unscoped.update(ended_at=now, ended_by="ops", returned={"pool gpu.cards": 1}, reason="rush")
    WorkspacePolicy.unscoped.filter(tenant__slug="folder-1").update(
        images=["registry/*"], maximum={"run_limit": "2d"}, defaults={"roles": {"cpu": 2}}, start_limit_s=60
    )
    Tenant.unscoped.filter(slug="folder-2").update(
        archived_at=now - timedelta(days=1), archived_with=w.workspace.pk
    )
    viewer = w.platform_admin
    with row_scope.whole():
        assert compare_rows(NodeSerializer, node_list(viewer=viewer)) > 2
        assert compare_rows(DeviceSerializer, device_list(viewer=viewer)) > 2
        assert compare_rows(BudgetSerializer, budget_list(viewer, now=now)) > 2
        assert compare_rows(PolicySerializer, policy_list(viewer=viewer)) > 2
        assert compare_rows(TenantSerializer, tenant_list(viewer=viewer, archived=True)) > 2
    with overrides_in_sight(viewer) as loans:
        assert compare_rows(OverrideSerializer, loans) == 2
