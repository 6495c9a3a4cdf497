"""The permissions that the platform's account lacks are found on a real API server."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from unittest.mock import Mock

import pytest
import yaml

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import AccessDenied, BackendUnavailable
from clusters.backends.kubernetes import KubernetesBackend, permissions
from clusters.backends.kubernetes.permissions import PLATFORM_RULES, AccessRule
from clusters.backends.kueue.backend import KUEUE_RULES
from clusters.backends.simulated.backend import SimulatedBackend
from clusters.models import BackendKind
from clusters.models import Cluster as ClusterRow
from clusters.services.cluster import cluster_add, cluster_reconnect, cluster_remove, cluster_sync
from clusters.services.cluster_permissions import permissions_refresh
from clusters.services.ownership import ClusterUnreachable
from foundation.core import clock
from foundation.core.actor import SYSTEM
from scheduling.delegation.run import delegation_run
from scheduling.execution.execute import execute_cluster
from scheduling.execution.observe import observe_cluster
from tests.builders import clusters
from tests.builders.world import world
from tests.fixtures.kubelet import Cluster, Json
from tests.fixtures.wait import wait_until

DEPLOY: Final = Path(__file__).resolve().parents[3] / "deploy/kubernetes"
NAMED: Final = {"apiGroups": [""], "resources": ["pods"], "verbs": ["get"], "resourceNames": ["a"]}
ROLE: Final = "/apis/rbac.authorization.k8s.io/v1/clusterroles/allotment"


def rules_of(file: str) -> set[tuple[str, str, str, str]]:
    """The group, resource, name and verb of each permission in a file of `deploy/kubernetes`."""
    documents = yaml.safe_load_all((DEPLOY / file).read_text(encoding="utf-8"))
    rules = [rule for each in documents if each["kind"] == "ClusterRole" for rule in each["rules"]]
    return {
        (group, resource, name, verb)
        for rule in rules
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for name in rule.get("resourceNames", [""])
        for verb in rule["verbs"]
    }


@pytest.mark.parametrize(("file", "table"), [("access.yaml", PLATFORM_RULES), ("kueue.yaml", KUEUE_RULES)])
def test_the_table_is_what_the_manifest_contains(file: str, table: tuple[AccessRule, ...]) -> None:
    listed = [(rule.group, rule.resource, rule.name, verb) for rule in table for verb in rule.verbs]
    assert len(listed) == len(set(listed))
    assert set(listed) == rules_of(file)


@pytest.fixture
def row(kube: ControlPlane) -> ClusterRow:
    kubeconfig = str(kube.write_kubeconfig(kube.platform_token))
    return ClusterRow(name="real", connection={"kind": "kubeconfig", "path": kubeconfig})


@contextmanager
def reduced(
    row: ClusterRow, kube: ControlPlane, reduce: Callable[[list[Json]], list[Json]]
) -> Iterator[None]:
    """Give the platform's account other rules than those of its role, and its role again at the end; either
    is in force when this continues.
    """
    cluster, backend = Cluster(kube), KubernetesBackend(row)
    rules = cluster.call("GET", ROLE)["rules"]
    cluster.call("PATCH", ROLE, {"rules": reduce(json.loads(json.dumps(rules)))})
    try:
        wait_until(backend.list_missing_permissions, "the reduced role is in force")
        yield
    finally:
        cluster.call("PATCH", ROLE, {"rules": rules})
        wait_until(lambda: backend.list_missing_permissions() == (), "the whole role is in force again")


def without(*resources: str) -> Callable[[list[Json]], list[Json]]:
    return lambda rules: [rule for rule in rules if not {*resources} & {*rule["resources"]}]


def _few_missing(rules: list[Json]) -> list[Json]:
    left = without("persistentvolumes", "pods/log")(rules)
    for rule in left:
        if rule["resources"] == ["persistentvolumeclaims"]:
            rule["verbs"] = ["list"]
        if rule.get("resourceNames") == ["allotment"] and rule["resources"] == ["resourcequotas"]:
            rule["resourceNames"] = ["another"]
    return left


@pytest.fixture
def reduced_role(row: ClusterRow, kube: ControlPlane) -> Iterator[None]:
    """The platform's role without the claims' `patch`, the volumes, pod logs and one named quota."""
    with reduced(row, kube, _few_missing):
        yield


@pytest.mark.server
@pytest.mark.django_db
def test_a_role_as_shipped_lacks_nothing(row: ClusterRow) -> None:
    backend = KubernetesBackend(row)
    wait_until(lambda: backend.list_missing_permissions() == (), "the role is in force")


@pytest.mark.server
@pytest.mark.django_db
def test_both_ways_of_asking_agree(
    row: ClusterRow, reduced_role: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = KubernetesBackend(row)
    wait_until(lambda: len(backend.list_missing_permissions() or ()) == 5, "the reduced role is in force")
    by_rules = backend.list_missing_permissions()
    monkeypatch.setattr(permissions, "_account_rules", lambda _api: [])
    assert backend.list_missing_permissions() == by_rules


@pytest.mark.parametrize(
    ("known", "rule", "wanted"),
    [
        (
            {"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]},
            AccessRule("", "pods/log", ("get",)),
            True,
        ),
        (
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["*"]},
            AccessRule("", "pods/log", ("get",)),
            False,
        ),
        (
            {"apiGroups": [""], "resources": ["*/log"], "verbs": ["get"]},
            AccessRule("", "pods/log", ("get",)),
            True,
        ),
        (
            {"apiGroups": ["apps"], "resources": ["*"], "verbs": ["get"]},
            AccessRule("", "pods", ("get",)),
            False,
        ),
        (
            {"apiGroups": [""], "resources": ["pods"], "verbs": ["list"]},
            AccessRule("", "pods", ("get",)),
            False,
        ),
        (NAMED, AccessRule("", "pods", ("get",)), False),
        (NAMED, AccessRule("", "pods", ("get",), "a"), True),
        (NAMED, AccessRule("", "pods", ("get",), "b"), False),
    ],
    ids=range(8),
)
def test_rules_are_read_as_rbac_reads_them(
    known: dict[str, list[str]], rule: AccessRule, wanted: bool
) -> None:
    assert permissions._contains(known, "get", rule) is wanted


@pytest.mark.server
@pytest.mark.django_db
def test_each_missing_permission_is_named(row: ClusterRow, reduced_role: None) -> None:
    backend = KubernetesBackend(row)
    wanted = (
        "get persistentvolumes",
        "get pods/log",
        "get resourcequotas (allotment)",
        "patch persistentvolumeclaims",
        "patch resourcequotas (allotment)",
    )
    wait_until(lambda: backend.list_missing_permissions() == wanted, "the reduced role is in force")


class AnsweringBackend:
    """A backend whose answers are given; an exception is raised."""

    def __init__(self, *answers: tuple[str, ...] | BackendUnavailable | None) -> None:
        self.answers = list(answers)

    def list_missing_permissions(self) -> tuple[str, ...] | None:
        answer = self.answers.pop(0)
        if isinstance(answer, BackendUnavailable):
            raise answer
        return answer


@pytest.mark.django_db
def test_permissions_are_read_again_after_a_while_and_kept_through_an_outage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = world().cluster
    now = datetime(2026, 11, 2, 8, tzinfo=UTC)
    monkeypatch.setattr(clock, "now", lambda: now)
    backend = AnsweringBackend(("get pods/log",), BackendUnavailable("no answer"), None, (), (), ())

    def read(*, minutes: float, **how: bool) -> tuple[list[str] | None, int]:
        nonlocal now
        now += timedelta(minutes=minutes)
        permissions_refresh(cluster=cluster, backend=backend, **how)  # type: ignore[arg-type]
        cluster.refresh_from_db()
        return cluster.missing_permissions, len(backend.answers)

    missing = ["get pods/log"]
    assert cluster.missing_permissions is None
    assert read(minutes=0) == (missing, 5)
    assert read(minutes=0.9) == (missing, 5)
    assert read(minutes=1) == (missing, 4), "without an answer the former one stays"
    assert read(minutes=1) == (None, 3)
    assert read(minutes=0.9) == (None, 3)
    assert read(minutes=1) == ([], 2), "unknown permissions are read as often as missing ones"
    assert read(minutes=9.9) == ([], 2)
    assert read(minutes=0, denied=True) == ([], 1), "a refusal makes an older answer doubtful"
    assert read(minutes=0.5, denied=True) == ([], 1)
    assert read(minutes=0, at_once=True) == ([], 0)


def deny(*_args: object, **_words: object) -> Any:
    raise AccessDenied("403 Forbidden")


class DenyingBackend(SimulatedBackend):
    """A cluster that lets the platform's account read nothing."""

    def list_missing_permissions(self) -> tuple[str, ...]:
        return ("list pods",)

    observe_pods = read_inventory = apply_projection = deny


CALLS: Final = {
    "observation": lambda cluster: observe_cluster(cluster_id=cluster.pk),
    "execution": lambda cluster: execute_cluster(cluster_id=cluster.pk),
    "delegation": lambda cluster: delegation_run(cluster_id=cluster.pk),
    "synchronization": lambda cluster: cluster_sync(acting_user=SYSTEM, cluster=cluster),
}


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("call", "owner_denied"),
    [*((call, True) for call in CALLS), *((call, False) for call in CALLS if call != "execution")],
)
def test_a_call_that_is_denied_lists_the_missing_permissions(
    call: str, owner_denied: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call fails as before; only the permission that it lacks gets known at once."""
    cluster = world().cluster
    if call == "delegation":
        cluster.backend = BackendKind.KUEUE
        cluster.save()
    ClusterRow.unscoped.update(missing_permissions=[], permissions_at=clock.now() - timedelta(minutes=2))
    for module in ("clusters.services.cluster", "clusters.services.cluster_permissions"):
        monkeypatch.setattr(f"{module}.backend_for", lambda row, **_: DenyingBackend(row))
    owned = deny if owner_denied else DenyingBackend
    for module in ("execution.observe", "execution.execute", "delegation.run"):
        monkeypatch.setattr(f"scheduling.{module}.backend_owned", owned)
    monkeypatch.setattr("clusters.services.cluster.ownership_check", deny if owner_denied else Mock())
    monkeypatch.setattr("scheduling.delegation.run.delegate_for", DenyingBackend)
    with suppress(ClusterUnreachable):
        CALLS[call](cluster)
    assert ClusterRow.unscoped.get().missing_permissions == ["list pods"]


@pytest.fixture
def east(kube: ControlPlane) -> Iterator[ClusterRow]:
    """A cluster of one node, added before and removed after the test."""
    Cluster(kube).node("gpu-1", {"cpu": "96", "memory": "1Ti", "pods": "110"}, {}, {})
    path = str(kube.write_kubeconfig(kube.platform_token))
    made = cluster_add(
        acting_user=SYSTEM, cell=clusters.cell(), name="east", backend=BackendKind.KUBERNETES,
        connection={"kind": "kubeconfig", "path": path},
    )  # fmt: skip
    try:
        yield made
    finally:
        cluster_remove(acting_user=SYSTEM, cluster=ClusterRow.unscoped.get())
        Cluster(kube).clear()


@pytest.mark.server
@pytest.mark.django_db
@pytest.mark.parametrize(
    ("resource", "call"),
    [("pods", "observation"), ("configmaps", "observation"), ("nodes", "synchronization")],
)
def test_what_a_reading_of_the_cluster_lacks_is_listed(
    east: ClusterRow, kube: ControlPlane, resource: str, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert east.missing_permissions == []
    later = clock.now() + timedelta(minutes=2)
    with reduced(east, kube, without(resource)):
        monkeypatch.setattr(clock, "now", lambda: later)
        with suppress(ClusterUnreachable):
            CALLS[call](ClusterRow.unscoped.get())
    missing = ClusterRow.unscoped.get().missing_permissions
    assert missing is not None and f"list {resource}" in missing


@pytest.mark.server
@pytest.mark.django_db
def test_another_connection_has_permissions_that_are_not_known(east: ClusterRow) -> None:
    assert (east.missing_permissions, east.permissions_at is None) == ([], False)
    cluster_reconnect(acting_user=SYSTEM, cluster=east, connection=east.connection)
    row = ClusterRow.unscoped.get()
    assert (row.missing_permissions, row.permissions_at) == (None, None)
