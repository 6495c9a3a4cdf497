"""Invalid distributions, files, queues, policies, budgets and limits are refused by field."""

from __future__ import annotations

from typing import Any, Final

import pytest
from rest_framework.test import APIClient

from foundation.core.quantities import Resource
from quotas.distribution.division import Keep
from quotas.models import Budget, Quota, UserLimit
from quotas.services.quota import quota_set
from quotas.services.quota_plan import QuotaAmount
from scheduling.models import PriorityGrant
from tests.api.conftest import As
from tests.api.refusals import Bad, faults
from tests.builders import jobs, quotas, tenancy
from tests.builders.world import World

NOWHERE: Final = "00000000-0000-7000-8000-000000000000"
CARDS: Final = {"flavor": "a100", "resource": "gpu.cards"}
NODE: Final = "admin/quotas/{team}"
QUEUE: Final = "workspaces/team-a/queues/default"
QUEUES: Final = "workspaces/team-a/queues"
POLICY: Final = "tenants/{tenant}/policy"
CLASSES: Final = "admin/priority-classes"
GRANTS: Final = "admin/priority-grants"
FILE: Final = "admin/quota-file"
HEAD: Final = "tenant,queue,flavor,resource,nominal\n"


def amount(**values: Any) -> dict[str, Any]:
    return {"amounts": [{**CARDS, "nominal": 8} | values]}


def loan(**values: Any) -> dict[str, Any]:
    parties = {"lender": "{leaf}", "borrower": "{team}", "ends_at": "2999-01-01T00:00:00Z"}
    return parties | {"amounts": [{**CARDS, "amount": 1}]} | values


def divided(body: Any, field: str) -> Bad:
    return Bad("PATCH", NODE, body, field)


def queue(field: str, value: Any) -> Bad:
    return Bad("PATCH", QUEUE, {field: value}, field)


def policy(body: Any, field: str) -> Bad:
    return Bad("PUT", POLICY, body, field)


def table(text: str, field: str) -> Bad:
    return Bad("POST", FILE, text, field, "text/csv")


def tree(text: str, field: str) -> Bad:
    return Bad("POST", FILE, text, field, "application/yaml")


def listed(**values: Any) -> str:
    """Return a file of one amount, as YAML."""
    lines = {"flavor": "a100", "resource": "gpu.cards", "nominal": "8"} | values
    inner = "\n".join(f"        {name}: {value}" for name, value in lines.items())
    return f"quotas:\n  - tenant: team-a\n    queue: default\n    quotas:\n      -\n{inner}\n"


BOMB: Final = "a: &a [x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n"
    for before, name in zip("abcdefgh", "bcdefghi", strict=True)
)

DIVISION: Final = [
    divided([], "non_field_errors"),
    divided({}, "amounts"),
    divided({"amounts": []}, "amounts.non_field_errors"),
    divided({"amounts": {}}, "amounts.non_field_errors"),
    divided({"amounts": "all"}, "amounts.non_field_errors"),
    divided({"amounts": [CARDS | {"nominal": 8}] * 300}, "amounts.1.nominal"),
    divided({"amounts": [None]}, "amounts.0"),
    divided(amount(nominal=-1), "amounts.0.nominal"),
    divided(amount(nominal=1e30), "amounts.0.nominal"),
    divided(amount(nominal=10**30), "amounts.0.nominal"),
    divided(amount(nominal=2**63), "amounts.0.nominal"),
    divided(amount(nominal=0.5), "amounts.0.nominal"),
    divided(amount(nominal="8"), "amounts.0.nominal"),
    divided(amount(nominal="unlimited"), "amounts.0.nominal"),
    divided(amount(nominal=True), "amounts.0.nominal"),
    divided(amount(nominal=[8]), "amounts.0.nominal"),
    divided(b'{"amounts": [{"flavor": "a100", "resource": "gpu.cards", "nominal": NaN}]}', ""),
    divided(b'{"amounts": [{"flavor": "a100", "resource": "gpu.cards", "nominal": -Infinity}]}', ""),
    divided(
        b'{"amounts": [{"flavor": "a100", "resource": "gpu.cards", "nominal": 1e999}]}', "amounts.0.nominal"
    ),
    divided(amount(nominal=30), "amounts.0.nominal"),
    divided(amount(nominal=None), "amounts.0.nominal"),
    divided(amount(borrowing_limit=-1), "amounts.0.borrowing_limit"),
    divided(amount(borrowing_limit=1e30), "amounts.0.borrowing_limit"),
    divided(amount(borrowing_limit="none"), "amounts.0.borrowing_limit"),
    divided(amount(lending_limit=-1), "amounts.0.lending_limit"),
    divided(amount(lending_limit={}), "amounts.0.lending_limit"),
    divided(amount(flavor="h100"), "amounts.0.flavor"),
    divided(amount(flavor=""), "amounts.0.flavor"),
    divided(amount(flavor=None), "amounts.0.flavor"),
    divided(amount(flavor="a\u0000"), "amounts.0.flavor"),
    divided(amount(flavor="x" * 64), "amounts.0.flavor"),
    divided(amount(cluster="moon"), "amounts.0.flavor"),
    divided(amount(resource="gold"), "amounts.0.resource"),
    divided(amount(resource=7), "amounts.0.resource"),
    divided(amount(used=0), "amounts.0.used"),
    divided({"amounts": [CARDS | {"nominal": 1}, CARDS | {"nominal": 2}]}, "amounts.1.nominal"),
    divided(amount() | {"shrink": "explode"}, "shrink"),
    divided(amount() | {"reason": "x" * 501}, "reason"),
    divided(amount() | {"reason": "a\u0000b"}, "reason"),
    divided(amount() | {"on_top": "yes"}, "on_top"),
    divided(amount() | {"version": 0}, "version"),
    Bad("PATCH", "admin/quotas/{leaf}", amount(nominal=2), "shrink"),
    Bad("POST", "admin/quota-revisions/{revision}/revert", {"shrink": "explode"}, "shrink"),
    Bad("POST", "admin/quota-revisions/{revision}/revert", {"colour": "red"}, "colour"),
]
FILES: Final = [
    table("", ""),
    table("tenant|flavor|resource|nominal\nteam-a|a100|gpu.cards|8\n", "tenant|flavor|resource|nominal"),
    table("tenant,tenant,flavor,resource,nominal\na,b,a100,cpu,1\n", "tenant"),
    table("tenant,flavor,resource,nominal,colour\nteam-a,a100,cpu,1,red\n", "colour"),
    table("flavor,resource,nominal\na100,gpu.cards,1\n", "tenant"),
    table(f"{HEAD}team-a,default,a100\n", ""),
    table(f"{HEAD}team-a,default,a100,gpu.cards,8,9\n", ""),
    table(f"{HEAD}nobody,,a100,gpu.cards,8\n", "tenant"),
    table(f"{HEAD}team-a,nowhere,a100,gpu.cards,8\n", "queue"),
    table(f"{HEAD}team-a,default,h100,gpu.cards,8\n", "flavor"),
    table(f"{HEAD}team-a,default,a100,gold,8\n", "resource"),
    table(f"{HEAD}team-a,default,a100,,8\n", "resource"),
    table(f"{HEAD}team-a,default,a100,gpu.cards,-8\n", "nominal"),
    table(f"{HEAD}team-a,default,a100,gpu.cards,1e30\n", "nominal"),
    table(f"{HEAD}team-a,default,a100,gpu.cards,{10**30}\n", "nominal"),
    table(f"{HEAD}team-a,default,a100,gpu.cards,NaN\n", "nominal"),
    table(f"{HEAD}team-a,default,a100,gpu.cards,٨\n", "nominal"),
    table(f"{HEAD}team-a,default,a100,gpu.cards,=1+1\n", "nominal"),
    table(f"{HEAD}team-a,default,a100,gpu.cards,30\n", "nominal"),
    table(f"{HEAD}" + "team-a,default,a100,gpu.cards,8\n" * 2, "nominal"),
    table(f'{HEAD}"team-a,default,a100,gpu.cards,8\n', ""),
    table(f"{HEAD}" + "team-a,default,a100,gpu.cards,8\n" * 40_000, ""),
    table("x" * 2**20 + "x", ""),
    Bad("POST", FILE, b"\xff\xfe\x00", "", "text/csv"),
    tree("", ""),
    tree("[]", ""),
    tree("quotas: 7", "quotas"),
    tree("quotas:\n  - 7\n", ""),
    tree("{" * 100_000, ""),
    tree("quotas: " + "[" * 5_000 + "]" * 5_000, ""),
    tree(BOMB, "a"),
    tree("quotas: &a\n  - tenant: team-a\n    quotas: *a\n", "quotas"),
    tree("!!python/object/apply:os.system [ls]", ""),
    tree("quotas:\n\t- tenant: team-a\n", ""),
    tree(listed(nominal="null"), "nominal"),
    tree(listed(nominal="-1"), "nominal"),
    tree(listed(nominal="1e30"), "nominal"),
    tree(listed(nominal=".inf"), "nominal"),
    tree(listed(nominal="[8]"), "nominal"),
    tree(listed(nominal="99"), "nominal"),
    tree(listed(flavor="h100"), "flavor"),
    tree(listed(colour="red"), "colour"),
    tree(listed(resource="gold"), "resource"),
    tree(listed() + "    tenant: team-b\n", "tenant"),
    Bad("POST", f"{FILE}?shrink=explode", HEAD, "shrink", "text/csv"),
    Bad("POST", f"{FILE}?colour=red", HEAD, "colour", "text/csv"),
    Bad("POST", f"{FILE}?on_top=perhaps", HEAD, "on_top", "text/csv"),
]
RULES: Final = [
    # Queues.
    queue("strategy", "lifo"),
    queue("stop_policy", 7),
    queue("allocation_mode", None),
    queue("preemption", "perhaps"),
    queue("preemption", None),
    queue("backfill", 1),
    queue("within_queue", "all"),
    queue("reclaim", []),
    queue("while_borrowing", ""),
    queue("max_priority", 2**31),
    queue("max_priority", -(2**31)),
    queue("max_priority", 1e30),
    queue("max_priority", "high"),
    queue("when_can_borrow", "always"),
    queue("preference", {}),
    queue("preset", "turbo"),
    queue("flavors", "a100"),
    queue("flavors", []),
    queue("flavors", ["a100"] * 65),
    queue("cell", "main"),
    queue("node", NOWHERE),
    Bad("PATCH", QUEUE, {"flavors": ["a100", "h100"]}, "flavors.1"),
    Bad("PATCH", QUEUE, {"flavors": ["a100", "a100"]}, "flavors"),
    Bad("PATCH", QUEUE, {"flavors": [7]}, "flavors.0"),
    Bad("POST", QUEUES, {}, "name"),
    Bad("POST", QUEUES, {"name": "Second", "flavors": ["a100"]}, "name"),
    Bad("POST", QUEUES, {"name": "default", "flavors": ["a100"]}, "name"),
    Bad("POST", QUEUES, {"name": "a" * 64, "flavors": ["a100"]}, "name"),
    Bad("POST", QUEUES, {"name": "队列", "flavors": ["a100"]}, "name"),
    Bad("POST", QUEUES, {"name": "a\u0000", "flavors": ["a100"]}, "name"),
    Bad("POST", QUEUES, {"name": "second", "flavors": []}, "flavors"),
    Bad("POST", QUEUES, {"name": "second"}, "flavors"),
    Bad("POST", QUEUES, {"name": "second", "flavors": ["a100", "a100"]}, "flavors"),
    Bad("POST", QUEUES, {"name": "second", "flavors": ["h100"]}, "flavors.0"),
    Bad("POST", QUEUES, {"name": "second", "flavors": ["a100"], "cell": "moon"}, "cell"),
    Bad("POST", QUEUES, {"name": "second", "flavors": ["a100"], "preset": "turbo"}, "preset"),
    Bad("POST", QUEUES, {"name": "second", "flavors": ["a100"], "weight": 9}, "weight"),
    Bad("POST", f"{QUEUE}/preset", {"preset": None}, "preset"),
    Bad("POST", f"{QUEUE}/preset", {"preset": "balanced", "now": True}, "now"),
    # Policies.
    policy([], "non_field_errors"),
    policy({"maximum": {"max_run_s": -1}}, "maximum.max_run_s"),
    policy({"maximum": {"max_run_s": 1e30}}, "maximum.max_run_s"),
    policy({"maximum": {"max_run_s": "a day"}}, "maximum.max_run_s"),
    policy({"maximum": {"colour": 1}}, "maximum.colour"),
    policy({"maximum": {"roles.resources.gpu.cards": True}}, "maximum.roles.resources.gpu.cards"),
    policy({"maximum": {"roles.resources.memory": "1Qi"}}, "maximum.roles.resources.memory"),
    policy({"maximum": []}, "maximum"),
    policy({"minimum": {"max_run_s": 100}, "maximum": {"max_run_s": 10}}, "minimum.max_run_s"),
    policy({"minimum": {"roles.resources.cpu": "-1"}}, "minimum.roles.resources.cpu"),
    policy({"defaults": {"name": "x"}}, "defaults.name"),
    policy({"defaults": {"roles": []}}, "defaults.roles"),
    policy({"defaults": {"max_run_s": -5}}, "defaults.max_run_s"),
    policy({"defaults": {"colour": "red"}}, "defaults.colour"),
    policy({"defaults": {"environment": {"A": "x" * 70_000}}}, "defaults.environment"),
    policy({"defaults": "none"}, "defaults"),
    policy({"images": "pytorch/*"}, "images"),
    policy({"images": [""]}, "images.0"),
    policy({"images": [7]}, "images.0"),
    policy({"images": ["*" * 6]}, "images.0"),
    policy({"images": ["a"] * 101}, "images"),
    policy({"allowed": []}, "allowed"),
    policy({"allowed": {"colour": ["red"]}}, "allowed.colour"),
    policy({"allowed": {"kind": "batch"}}, "allowed.kind"),
    policy({"allowed": {"kind": [7]}}, "allowed.kind.0"),
    policy({"allowed": {"kind": ["batch", ""]}}, "allowed.kind.1"),
    policy({"allowed": {"queue": ["*" * 6]}}, "allowed.queue.0"),
    policy({"allowed": {"queue": ["a"] * 101}}, "allowed.queue"),
    policy({"idle_timeout_s": 1}, "idle_timeout_s"),
    policy({"idle_timeout_s": -600}, "idle_timeout_s"),
    policy({"idle_timeout_s": 1e30}, "idle_timeout_s"),
    policy({"idle_timeout_s": "600"}, "idle_timeout_s"),
    policy({"tenant": "team-b"}, "tenant"),
    # Priority classes and grants.
    Bad("POST", CLASSES, {}, "name"),
    Bad("POST", CLASSES, {"name": "Urgent", "value": 1}, "name"),
    Bad("POST", CLASSES, {"name": "normal", "value": 1}, "name"),
    Bad("POST", CLASSES, {"name": "urgent", "value": 2**31}, "value"),
    Bad("POST", CLASSES, {"name": "urgent", "value": 1e30}, "value"),
    Bad("POST", CLASSES, {"name": "urgent", "value": "high"}, "value"),
    Bad("POST", CLASSES, {"name": "urgent", "value": None}, "value"),
    Bad("POST", CLASSES, {"name": "urgent", "value": 1, "description": "x" * 201}, "description"),
    Bad("PATCH", f"{CLASSES}/steep", {"value": -(2**31) - 1}, "value"),
    Bad("PATCH", f"{CLASSES}/steep", {"name": "steeper"}, "name"),
    Bad("PATCH", f"{CLASSES}/steep", {"retired": "perhaps"}, "retired"),
    Bad("POST", GRANTS, {"tenant": "team-a"}, "priority_class"),
    Bad("POST", GRANTS, {"tenant": "nobody", "priority_class": "steep"}, "tenant"),
    Bad("POST", GRANTS, {"tenant": "team-a", "priority_class": "none"}, "priority_class"),
    Bad("POST", GRANTS, {"tenant": "team-a", "priority_class": 7}, "priority_class"),
    Bad("POST", GRANTS, {"tenant": "team-a", "priority_class": "steep", "until": NOWHERE}, "until"),
    # Existing rows and their users.
    Bad("PATCH", "admin/budgets/{budget}", {"gpu_hours": -1}, "gpu_hours"),
    Bad("PATCH", "admin/budgets/{budget}", {"gpu_hours": 1e30}, "gpu_hours"),
    Bad("PATCH", "admin/budgets/{budget}", {"gpu_hours": "ten"}, "gpu_hours"),
    Bad("PATCH", "admin/budgets/{budget}", {"thresholds": [50, 50]}, "thresholds"),
    Bad("PATCH", "admin/budgets/{budget}", {"thresholds": [True]}, "thresholds.0"),
    Bad("PATCH", "admin/budgets/{budget}", {"action": "explode"}, "action"),
    Bad("PATCH", "admin/budgets/{budget}", {"tenant": "team-b"}, "tenant"),
    Bad("POST", "admin/budgets", {"tenant": "nobody", "gpu_hours": 1}, "tenant"),
    Bad("POST", "admin/budgets", {"tenant": "team-a", "gpu_hours": 1, "until": "soon"}, "until"),
    Bad("PATCH", "workspaces/team-a/user-limits/{limit}", {"amount": -1}, "amount"),
    Bad("PATCH", "workspaces/team-a/user-limits/{limit}", {"amount": 1e30}, "amount"),
    Bad("PATCH", "workspaces/team-a/user-limits/{limit}", {"amount": None}, "amount"),
    Bad("PATCH", "workspaces/team-a/user-limits/{limit}", {}, "amount"),
    Bad("PATCH", "workspaces/team-a/user-limits/{limit}", {"amount": 1, "user": "otto"}, "user"),
    Bad("POST", "admin/overrides", loan(lender=NOWHERE), "lender"),
    Bad("POST", "admin/overrides", loan(borrower=NOWHERE), "borrower"),
]  # fmt: skip


@pytest.fixture
def names(w: World) -> dict[str, str]:
    """Return one thing of each kind, by the names that the rows use; the queue uses 4 of its 8 cards."""
    Quota.unscoped.filter(node=quotas.quota_node(w.cell, tenancy.root()), resource="gpu.cards").update(
        own_nominal=10
    )
    quotas.reserve(w.queue, w.flavor, Resource.GPU_CARDS, 4)
    node = quotas.quota_node(w.cell, w.other_workspace)
    more = [QuotaAmount(w.flavor, Resource.CPU, Keep.AS_IS, 1000)]
    revision = quota_set(acting_user=w.platform_admin, node=node, amounts=more, version=None)
    assert revision is not None
    steep = jobs.priority_class("steep", 1000)
    PriorityGrant.unscoped.create(tenant=w.workspace, priority_class=steep)
    return {
        "tenant": str(w.workspace.pk),
        "team": str(quotas.quota_node(w.cell, w.workspace).pk),
        "leaf": str(w.queue.node_id),
        "revision": str(revision.pk),
        "budget": str(Budget.unscoped.create(tenant=w.workspace, gpu_hours=10).pk),
        "limit": str(UserLimit.unscoped.create(workspace=w.workspace, resource="gpu.cards", amount=4).pk),
    }


@pytest.fixture
def client(w: World, as_user: As) -> APIClient:
    """Return a client with all rights, so that only the content of a request is refused."""
    return as_user(w.platform_admin)


@pytest.mark.parametrize("rows", [DIVISION, FILES, RULES], ids=["division", "files", "rules"])
def test_what_cannot_be_is_refused_by_field(
    client: APIClient, names: dict[str, str], rows: list[Bad]
) -> None:
    assert not (found := faults(client, rows, names)), found
