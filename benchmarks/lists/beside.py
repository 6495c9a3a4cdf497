"""Rows of other kinds than jobs and GPUs: groups, accounts, alerts, requests, loans, budgets, history and
audit.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, Final

from django.db import connection

from alerts.models import Alert, AlertRule, AlertState, NotificationChannel, Silence
from benchmarks.api.world import NO_HASH
from benchmarks.lists.running import BATCH
from clusters.models import Cell, Flavor
from foundation.core import clock
from quotas.models import (
    Budget,
    Override,
    OverrideAmount,
    QuotaChange,
    QuotaNode,
    QuotaRequest,
    QuotaRevision,
    RequestState,
    UserLimit,
)
from scheduling.models import PolicyReplay, SimulationState, WorkspacePolicy
from telemetry.models import Price
from tenants.models import (
    AccessKey,
    AccountKind,
    CustomRole,
    Group,
    GroupMember,
    Member,
    Role,
    Tenant,
    User,
)

_CARDS: Final = "gpu.cards"
_PENDING: Final = 200
_AUDIT: Final = """
INSERT INTO foundation_auditrecord (id, created_at, actor_id, actor_name, action, entity, entity_id,
    tenant_id, before, after, result, address, request_id)
SELECT gen_random_uuid(), now() - n * interval '2 minutes', u.id, u.username,
    (ARRAY['job.submit', 'job.cancel', 'quota.set', 'member.set', 'access-key.create'])[1 + n %% 5],
    (ARRAY['job', 'job', 'quota', 'member', 'access-key'])[1 + n %% 5], gen_random_uuid(), u.tenant_id,
    '{}', '{"name": "train"}', CASE WHEN n %% 50 = 0 THEN 'denied' ELSE 'done' END, '10.0.0.1', ''
FROM (
    SELECT n, n %% (SELECT count(*) FROM tenants_member WHERE user_id IS NOT NULL) AS place
    FROM generate_series(1, %(records)s) n
) drawn JOIN (
    SELECT row_number() OVER () AS place, u.id, u.username, m.tenant_id
    FROM tenants_user u JOIN tenants_member m ON m.user_id = u.id
) u USING (place)
"""


def add_accounts(teams: Sequence[Tenant], people: Sequence[User], groups: int) -> None:
    """Add groups with their members and roles, service accounts, keys and custom roles."""
    made = Group.unscoped.bulk_create(Group(name=f"group-{n:04d}") for n in range(groups))
    GroupMember.unscoped.bulk_create(
        (
            GroupMember(group=group, user=people[(n * 7 + place) % len(people)])
            for n, group in enumerate(made)
            for place in range(min(20, len(people)))
        ),
        batch_size=BATCH,
    )
    Member.unscoped.bulk_create(
        Member(group=group, tenant=teams[n % len(teams)], role=Role.VIEWER) for n, group in enumerate(made)
    )
    robots = User.objects.bulk_create(
        User(username=f"robot-{n}@{team.slug}", password=NO_HASH, kind=AccountKind.SERVICE, home=team)
        for team in teams[: len(teams) // 4]
        for n in range(2)
    )
    roles = CustomRole.unscoped.bulk_create(
        CustomRole(tenant=team, name="submitter", points=["job.view", "job.submit"]) for team in teams[::4]
    )
    Member.unscoped.bulk_create(
        Member(user=robots[n % len(robots)], tenant=role.tenant, custom_role=role)
        for n, role in enumerate(roles)
    )
    AccessKey.unscoped.bulk_create(
        (
            AccessKey(user=user, name="laptop", prefix=secrets.token_hex(8), secret_hash=NO_HASH)
            for user in (*robots, *people[::2])
        ),
        batch_size=BATCH,
    )


def add_alerts(teams: Sequence[Tenant], creator: User, count: int) -> None:
    """Add rules of the platform and of teams, alerts of which one in twenty fires, channels and silences."""
    now = clock.now()
    tenants = [None, *teams]
    rules = AlertRule.unscoped.bulk_create(
        AlertRule(tenant=tenant, name=name, metric="job.pending_s", threshold=3_600)
        for tenant in tenants[:201]
        for name in ("pending", "idle", "failed")
    )
    Alert.unscoped.bulk_create(
        (
            Alert(
                rule=rule, tenant=rule.tenant, rule_name=rule.name, metric=rule.metric, comparison="above",
                threshold=rule.threshold, severity=("info", "warning", "critical")[n % 3], subject=f"s-{n}",
                label=f"job-{n}", value=4_000.0, started_at=now - timedelta(minutes=10 * n),
                state=AlertState.RESOLVED if n % 20 else AlertState.FIRING,
                resolved_at=now - timedelta(minutes=5 * n) if n % 20 else None,
            )
            for n in range(count)
            for rule in (rules[n % len(rules)],)
        ),
        batch_size=BATCH,
    )  # fmt: skip
    NotificationChannel.unscoped.bulk_create(
        NotificationChannel(tenant=tenant, name=f"hook-{n}", kind="webhook", sealed_address="")
        for tenant in tenants[:101]
        for n in range(2)
    )
    Silence.unscoped.bulk_create(
        Silence(
            tenant=tenant, subject=f"job-{n}", starts_at=now, ends_at=now + timedelta(days=30),
            created_by=creator,
        )
        for tenant in tenants[:101]
        for n in range(2)
    )  # fmt: skip


def add_quota_work(cell: Cell, flavor: Flavor, teams: Sequence[Tenant], requests: int) -> None:
    """Add requests for quota, loans, budgets, limits of users, and the history of quotas."""
    nodes = list(QuotaNode.unscoped.filter(cell=cell, is_queue=True).order_by("pk").select_related("tenant"))
    editors = Member.unscoped.filter(tenant__in=teams, role=Role.EDITOR)
    members = dict(editors.values_list("tenant_id", "user_id"))
    QuotaRequest.unscoped.bulk_create(
        (
            _request(nodes[n % len(nodes)], members, flavor, pending=n < min(_PENDING, len(nodes)))
            for n in range(requests)
        ),
        batch_size=BATCH,
    )
    now = clock.now()
    own = [node for node in QuotaNode.unscoped.filter(cell=cell, is_queue=False) if node.parent_id]
    loans = Override.unscoped.bulk_create(
        Override(
            cell=cell, lender=own[n], borrower=own[-1 - n], actor_name="operator",
            starts_at=now - timedelta(days=n), ends_at=now + timedelta(days=1),
            state="ended" if n % 2 else "active",
        )
        for n in range(min(200, len(own) // 2))
    )  # fmt: skip
    OverrideAmount.unscoped.bulk_create(
        OverrideAmount(override=loan, flavor=flavor, resource=_CARDS, amount=1) for loan in loans
    )
    Budget.unscoped.bulk_create(Budget(tenant=team, gpu_hours=1_000) for team in teams[::3])
    UserLimit.unscoped.bulk_create(
        UserLimit(workspace=editor.tenant, user=editor.user, resource=_CARDS, amount=8)
        for editor in editors.select_related("tenant", "user")
    )
    revisions = QuotaRevision.unscoped.bulk_create(
        QuotaRevision(cell=cell, actor_name="operator", reason="plan") for _ in range(requests)
    )
    QuotaChange.unscoped.bulk_create(
        (
            QuotaChange(
                revision=revision, node=nodes[n % len(nodes)], flavor=flavor, resource=_CARDS,
                nominal_before=n % 8, nominal_after=n % 8 + 1,
            )
            for n, revision in enumerate(revisions)
        ),
        batch_size=BATCH,
    )  # fmt: skip
    WorkspacePolicy.unscoped.bulk_create(
        WorkspacePolicy(tenant=team, idle_timeout_s=7_200) for team in teams[::4]
    )
    month = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    Price.unscoped.bulk_create(
        Price(flavor=flavor, effective_at=month - timedelta(days=30 * n), gpu_hour=2) for n in range(12)
    )


def _request(node: QuotaNode, members: Mapping[Any, Any], flavor: Flavor, *, pending: bool) -> QuotaRequest:
    now = clock.now()
    wish = {"cluster": flavor.cluster.name, "flavor": flavor.name, "resource": _CARDS}
    return QuotaRequest(
        node=node, asker_id=members[node.tenant_id], reason="A deadline is near.",
        asked=[wish | {"nominal": 16}], current=[wish | {"nominal": 8}],
        expires_at=now + timedelta(days=7), state=RequestState.PENDING if pending else RequestState.REJECTED,
        decided_at=None if pending else now, closed_at=None if pending else now,
    )  # fmt: skip


def add_replays(cell: Cell, teams: Sequence[Tenant], count: int) -> None:
    """Add replays with a result for every team."""
    now = clock.now()
    one = {
        "jobs": 4, "not_started": 0, "wait_median": {"seconds": 600, "at_least": False},
        "wait_p90": {"seconds": 7_200, "at_least": True}, "preemptions": 2, "lost_gpu_hours": 1.5,
        "gpu_hours": 96.0, "inside_quota_s": 900,
    }  # fmt: skip
    column = {
        "teams": {str(team.pk): one for team in teams}, "total": one, "gpus": 10_000.0,
        "allocation_rate": 0.9, "bucket_s": 3_600, "allocated_gpus": [9_000.0] * 24,
    }  # fmt: skip
    result = {"measured": column, "recorded": column, "changed": column, "jobs": 5, "running_on": 1}
    PolicyReplay.unscoped.bulk_create(
        PolicyReplay(
            cell=cell, name=f"replay-{n:03d}", actor_name="operator", begin_at=now - timedelta(days=1),
            end_at=now, change={"sharing": "classical"}, state=SimulationState.DONE, result=result,
        )
        for n in range(count)
    )  # fmt: skip


def add_audit(records: int) -> None:
    """Add audit records of the members of tenants, one every two minutes."""
    with connection.cursor() as cursor:
        cursor.execute(_AUDIT, {"records": records})
