"""The permissions that the platform's account lacks are found on a real API server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pytest
import yaml

from benchmarks.support.control_plane import ControlPlane
from clusters.backends.base import BackendUnavailable
from clusters.backends.kubernetes import KubernetesBackend, permissions
from clusters.backends.kubernetes.permissions import PLATFORM_RULES, AccessRule
from clusters.backends.kueue.backend import KUEUE_RULES
from clusters.models import Cluster as ClusterRow
from clusters.services import cluster_permissions
from clusters.services.cluster_permissions import permissions_refresh
from foundation.core import clock
from tests.builders.world import world
from tests.fixtures.kubelet import Cluster
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


@pytest.fixture
def reduced_role(kube: ControlPlane) -> Iterator[None]:
    """The platform's role without the claims' `patch`, the volumes, pod logs and one named quota."""
    cluster = Cluster(kube)
    rules = cluster.call("GET", ROLE)["rules"]
    taken = {"persistentvolumes", "pods/log"}
    reduced = [rule for rule in json.loads(json.dumps(rules)) if not taken.intersection(rule["resources"])]
    for rule in reduced:
        if rule["resources"] == ["persistentvolumeclaims"]:
            rule["verbs"] = ["list"]
        if rule.get("resourceNames") == ["allotment"] and rule["resources"] == ["resourcequotas"]:
            rule["resourceNames"] = ["another"]
    cluster.call("PATCH", ROLE, {"rules": reduced})
    yield
    cluster.call("PATCH", ROLE, {"rules": rules})


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
    backend = AnsweringBackend(("get pods/log",), BackendUnavailable("no answer"), None, ())

    def read(*, minutes: float, at_once: bool = False) -> list[str] | None:
        nonlocal now
        now += cluster_permissions.READ_EVERY * minutes / 10
        permissions_refresh(cluster=cluster, backend=backend, at_once=at_once)  # type: ignore[arg-type]
        cluster.refresh_from_db()
        return cluster.missing_permissions

    assert cluster.missing_permissions is None
    assert read(minutes=0) == ["get pods/log"]
    assert read(minutes=0.9) == ["get pods/log"] and len(backend.answers) == 3
    assert read(minutes=1) == ["get pods/log"] and len(backend.answers) == 2
    assert read(minutes=1) is None
    assert read(minutes=9) is None and len(backend.answers) == 1
    assert read(minutes=0, at_once=True) == []
