"""Quotas as files: what is wrong is named by file, line and field, and nothing is half-applied."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from foundation.core.errors import Invalid
from foundation.core.quantities import Resource
from quotas.files import FileFormat, find_format
from quotas.models import Quota, QuotaRevision
from quotas.services.errors import ExceedsParent
from quotas.services.quota_files.quota_file import (
    QuotaFile,
    quota_file_apply,
    quota_file_check,
    quota_file_export,
)
from tenants.models import Role, Tenant, User
from tests.builders import clusters, quotas, tenancy

pytestmark = pytest.mark.django_db

HEAD = "tenant,queue,cluster,flavor,resource,nominal,borrowing_limit,lending_limit\n"
YAML = """\
quotas:
  - tenant: research
    quotas:
      - {flavor: a100, resource: gpu.cards, nominal: 20}
  - tenant: team-a
    queue: default
    quotas:
      - flavor: a100
        resource: gpu.cards
        nominal: 12
        borrowing_limit: unlimited
        lending_limit: 0
  - tenant: team-a
    quotas:
      - {flavor: a100, resource: gpu.cards, nominal: 14}
"""


@pytest.fixture(autouse=True)
def department(db: None) -> None:
    """A root with 30 cards, of which the folder has 10 and team A, in its queue, 8."""
    cell = clusters.cell()
    flavor = clusters.flavor(clusters.cluster(cell))
    folder = tenancy.folder("research")
    team = tenancy.workspace("team-a", folder)
    queue = quotas.queue(cell, team, [flavor])
    quotas.quota(quotas.quota_node(cell, tenancy.root()), flavor, Resource.GPU_CARDS, 12)
    quotas.quota(quotas.quota_node(cell, folder), flavor, Resource.GPU_CARDS, 10)
    quotas.quota(queue.node, flavor, Resource.GPU_CARDS, 8, borrowing_limit=4)
    tenancy.platform_admin()
    tenancy.user("anna", folder, Role.ADMIN)


def admin() -> User:

    return User.objects.get(username="root")


def as_file(text: str, name: str = "q.yaml") -> QuotaFile:
    return QuotaFile(text, find_format(name), name)


def own_nominals() -> dict[str, int | None]:
    rows = Quota.unscoped.select_related("node__tenant").order_by("pk")
    return {f"{row.node.tenant.slug}{'/q' * row.node.is_queue}": row.own_nominal for row in rows}


def test_a_file_is_applied_as_a_whole() -> None:
    found = quota_file_check(acting_user=admin(), file=as_file(YAML))
    assert {
        found.names[change.node.pk]: (change.before.nominal, change.after.nominal) for change in found.changes
    } == {"Research": (18, 20), "Team A / default": (8, 12), "Team A": (8, 14)}
    assert own_nominals() == {"root": 12, "research": 10, "team-a/q": 8}

    (revision,) = quota_file_apply(acting_user=admin(), file=as_file(YAML), reason="new year")

    assert own_nominals() == {"root": 10, "research": 6, "team-a": 2, "team-a/q": 12}
    row = Quota.unscoped.get(node__is_queue=True)
    assert (row.borrowing_limit, row.lending_limit) == (None, 0)
    assert revision.changes.count() == 3


@pytest.mark.parametrize("kind", list(FileFormat))
def test_what_is_exported_changes_nothing_when_it_is_applied(kind: FileFormat) -> None:
    text = quota_file_export(viewer=admin(), kind=kind)
    assert "30" in text
    assert "unlimited" in text
    assert quota_file_check(acting_user=admin(), file=QuotaFile(text, kind, "x")).changes == []


def test_an_export_holds_only_what_the_viewer_sees() -> None:
    team = Tenant.unscoped.get(slug="team-a")
    viewer = tenancy.user("vera", team, Role.VIEWER)
    text = quota_file_export(viewer=viewer, kind=FileFormat.CSV)
    assert {line.split(",")[0] for line in text.splitlines()[1:]} == {"team-a"}


# The file, and where its faults are: line, field and code.
BAD = {
    "not a mapping": ("q.yaml", "- 1\n", [("1", "TYPE"), ("1 quotas", "TYPE")]),
    "empty": ("q.yaml", "", [("1", "EMPTY")]),
    "Invalid YAML": ("q.yaml", "quotas:\n  - {tenant\n", [("3", "SYNTAX")]),
    "unknown field": ("q.yaml", "quotas: []\nmore: 1\n", [("2 more", "UNKNOWN")]),
    "twice": ("q.yaml", "quotas: []\nquotas: []\n", [("2 quotas", "TWICE")]),
    "unknown limit": (
        "q.yaml",
        "quotas:\n - tenant: team-a\n   quotas:\n   - {flavor: a100, resource: cpu, nominal: 1, max: 2}\n",
        [("4 max", "UNKNOWN")],
    ),
    "a list for a value": (
        "q.yaml",
        "quotas:\n - tenant: team-a\n   quotas:\n   - {flavor: a100, resource: cpu, nominal: [1]}\n",
        [("4 nominal", "TYPE")],
    ),
    "null is neither": (
        "q.yaml",
        "quotas:\n - tenant: team-a\n   quotas:\n   - {flavor: a100, resource: cpu, nominal: null}\n",
        [("4 nominal", "AMOUNT")],
    ),
    "unknown column": ("q.csv", "tenant,colour\n", [("1 colour", "UNKNOWN")]),
    "column twice": ("q.csv", "tenant,tenant\n", [("1 tenant", "TWICE")]),
    "too few values": ("q.csv", f"{HEAD}team-a,default\n", [("2", "COLUMNS")]),
    "open quote": ("q.csv", f'{HEAD}"team-a\n', [("2", "SYNTAX")]),
    "missing": (
        "q.csv",
        f"{HEAD},,,,,1,,\n",
        [("2 flavor", "REQUIRED"), ("2 resource", "REQUIRED"), ("2 tenant", "REQUIRED")],
    ),
    "negative": ("q.csv", f"{HEAD}team-a,,,a100,gpu.cards,-1,,\n", [("2 nominal", "AMOUNT")]),
    "a fraction": ("q.csv", f"{HEAD}team-a,,,a100,gpu.cards,1.5,,\n", [("2 nominal", "AMOUNT")]),
    "scientific": ("q.csv", f"{HEAD}team-a,,,a100,gpu.cards,,1e30,\n", [("2 borrowing_limit", "AMOUNT")]),
    "other digits": ("q.csv", f"{HEAD}team-a,,,a100,gpu.cards,,,٣\n", [("2 lending_limit", "AMOUNT")]),
    "too large": (
        "q.csv",
        f"{HEAD}team-a,,,a100,gpu.cards,9999999999999999999,,\n",
        [("2 nominal", "TOO_LARGE")],
    ),
    "unknown resource": ("q.csv", f"{HEAD}team-a,,,a100,gpus,1,,\n", [("2 resource", "UNKNOWN")]),
    "unknown flavor": ("q.csv", f"{HEAD}team-a,,,h100,gpu.cards,1,,\n", [("2 flavor", "UNKNOWN")]),
    "unknown cluster": ("q.csv", f"{HEAD}team-a,,no,a100,gpu.cards,1,,\n", [("2 flavor", "UNKNOWN")]),
    "unknown tenant": ("q.csv", f"{HEAD}nobody,,,a100,gpu.cards,1,,\n", [("2 tenant", "UNKNOWN")]),
    "unknown queue": ("q.csv", f"{HEAD}team-a,no,,a100,gpu.cards,1,,\n", [("2 queue", "UNKNOWN")]),
    "a limit twice": (
        "q.csv",
        f"{HEAD}team-a,,,a100,gpu.cards,9,,\nteam-a,,,a100,gpu.cards,9,,\n",
        [("3 nominal", "TWICE")],
    ),
    "two faults": (
        "q.csv",
        f"{HEAD}team-a,,,a100,gpu.cards,x,,\nnobody,,,a100,gpu.cards,y,,\n",
        [("2 nominal", "AMOUNT"), ("3 nominal", "AMOUNT")],
    ),
}


@pytest.mark.parametrize(("name", "text", "faults"), BAD.values(), ids=BAD)
def test_a_bad_file_is_refused_by_line_and_field(name: str, text: str, faults: list[tuple[str, str]]) -> None:
    with pytest.raises(Invalid) as refused:
        quota_file_apply(acting_user=admin(), file=as_file(text, name))
    assert [(error.field.removeprefix(f"{name}:"), error.code) for error in refused.value.errors] == faults
    assert own_nominals() == {"root": 12, "research": 10, "team-a/q": 8}


def test_sums_that_do_not_hold_are_refused_with_the_line() -> None:
    text = f"{HEAD}team-a,default,,a100,gpu.cards,8,,\nteam-a,,,a100,gpu.cards,40,,\n"
    with pytest.raises(ExceedsParent) as refused:
        quota_file_apply(acting_user=admin(), file=as_file(text, "q.csv"))
    assert [error.field for error in refused.value.errors] == ["q.csv:3 nominal"]
    assert not QuotaRevision.unscoped.exists()


def run(*words: str) -> str:
    out = io.StringIO()
    call_command("quota", *words, "--user", "root", stdout=out)
    return out.getvalue()


def test_the_command_shows_sets_exports_and_applies(tmp_path: Path) -> None:
    place = ("--flavor", "a100", "--resource", "gpu.cards")
    assert "8 GPUs → 9 GPUs" in run("set", "team-a", *place, "--nominal", "9", "--dry-run")
    assert own_nominals()["research"] == 10
    report = tmp_path / "report.json"
    run("set", "team-a", *place, "--nominal", "9", "--reason", "one more", "--json", str(report))
    assert json.loads(report.read_text())["changes"][0]["after"]["nominal"] == 9
    assert own_nominals()["research"] == 9
    file = tmp_path / "q.csv"
    file.write_text(
        run("export", "--format", "csv").replace("team-a,,,a100,gpu.cards,9", "team-a,,,a100,gpu.cards,10")
    )
    assert "9 GPUs → 10 GPUs" in run("apply", "-f", str(file))
    assert "10 GPUs" in run("get", "team-a")


def test_the_command_says_what_is_wrong_with_a_file(tmp_path: Path) -> None:
    file = tmp_path / "q.csv"
    file.write_text(f"{HEAD}team-a,,,a100,gpu.cards,x,,\n")
    with pytest.raises(CommandError, match=r"q\.csv:2 nominal: Invalid amount 'x'"):
        run("apply", "-f", str(file))
    with pytest.raises(CommandError, match="Tenant nobody not found"):
        run("get", "nobody")
