"""Quota files in their short form: pools in GPUs, several levels in one block, and back again."""

from __future__ import annotations

import io
import re
import time
from pathlib import Path
from typing import Any

import pytest
import yaml
from django.core.management import call_command
from django.core.management.base import CommandError
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters.models import Cell, Cluster, Device, Flavor, GpuMode
from foundation.core.errors import Invalid
from foundation.core.quantities import Resource
from quotas.files import FileFormat, read_rows
from quotas.models import Quota, QuotaKey, QuotaNode
from quotas.services.errors import ExceedsParent
from quotas.services.quota_files.quota_file import (
    QuotaFile,
    quota_file_apply,
    quota_file_check,
    quota_file_export,
)
from quotas.services.quota_plan import QuotaTables
from tenants.models import Tenant, User
from tests.builders import clusters, quotas, tenancy

pytestmark = pytest.mark.django_db
CARDS, CORES, MEMORY = Resource.GPU_CARDS, Resource.GPU_CORES, Resource.GPU_MEMORY
CPU, RAM = Resource.CPU, Resource.MEMORY
LEVELS = "tenants: [root, team-a, team-a/default]"


@pytest.fixture(autouse=True)
def installation(db: None) -> None:
    """Create a workspace with a queue over pools of whole cards, slices, MIG instances and without GPUs."""
    cell = clusters.cell()
    east = clusters.cluster(cell, "east")
    pools = [
        clusters.flavor(east, "h100", card_model="H100", card_memory_mib=81_920),
        clusters.flavor(east, "l40s", card_model="L40S", card_memory_mib=46_068, mode=GpuMode.SLICE),
        clusters.flavor(east, "mig", card_model="A100", card_memory_mib=10_240, mode=GpuMode.MIG),
        clusters.flavor(east, "plain", card_model="", card_memory_mib=0, mode=GpuMode.NONE),
    ]
    for pool, count, cards in zip(pools, (4, 2, 1, 1), (8, 8, 8, 0), strict=True):
        for number in range(count):
            clusters.node(pool, f"{pool.name}-{number}", cards=cards)
    Device.unscoped.filter(mode=GpuMode.MIG).update(cores_capacity=15)
    team = tenancy.workspace("team-a")
    queue = quotas.queue(cell, team, pools)
    Quota.unscoped.filter(node=queue.node).delete()
    tenancy.platform_admin()


def admin() -> User:
    return User.objects.get(username="root")


def as_file(text: str) -> QuotaFile:
    return QuotaFile(text, FileFormat.YAML, "q.yaml")


def apply(text: str) -> None:
    quota_file_apply(acting_user=admin(), file=as_file(text), on_top=False)


def block(pools: str, place: str = LEVELS) -> str:
    return f"quotas:\n  - {place}\n    pools: {pools}\n"


def has(tenant: str, flavor: str, *, queue: bool = False) -> dict[str, int | None]:
    """Return what a node has of a pool, its children included."""
    node = QuotaNode.unscoped.get(tenant__slug=tenant, is_queue=queue)
    tables = QuotaTables(node.cell_id)
    pool = Flavor.unscoped.get(name=flavor)
    return {resource.value: tables.get_nominal(QuotaKey(node.pk, pool.pk, resource)) for resource in Resource}


def faults(text: str) -> list[tuple[str, str]]:
    with pytest.raises(Invalid) as refused:
        apply(text)
    assert not Quota.unscoped.exists()
    return [(error.field.removeprefix("q.yaml:"), error.code) for error in refused.value.errors]


def test_a_few_lines_are_all_limits_of_three_levels() -> None:
    apply("""\
quotas:
  - tenants: [root, team-a, team-a/default]
    pools:
      h100: 16
      l40s: {gpus: 4, cpu: 64, memory: 512Gi}
      mig: {gpus: 8, cpu: 500m, memory: nodes}
      plain: {cpu: nodes, memory: unlimited}
""")
    for tenant, queue in (("root", False), ("team-a", False), ("team-a", True)):
        assert has(tenant, "h100", queue=queue) == {
            "gpu.cards": 16, "gpu.cores": 1600, "gpu.memory": 16 * 81_920,
            # The root has no limit; below it the limits follow from 16 of 32 GPUs.
            "cpu": None if tenant == "root" else 256_000,
            "memory": None if tenant == "root" else 2 * 1_048_576,
        }  # fmt: skip
        assert has(tenant, "l40s", queue=queue) == {
            "gpu.cards": None, "gpu.cores": 400, "gpu.memory": 4 * 46_068, "cpu": 64_000, "memory": 524_288,
        }  # fmt: skip
        assert has(tenant, "mig", queue=queue) == {
            "gpu.cards": 8, "gpu.cores": 120, "gpu.memory": 81_920, "cpu": 500, "memory": 1_048_576,
        }  # fmt: skip
        assert has(tenant, "plain", queue=queue) == {
            "gpu.cards": 0, "gpu.cores": 0, "gpu.memory": 0, "cpu": 128_000, "memory": None,
        }  # fmt: skip


def test_borrowing_and_lending_are_in_gpus_too() -> None:
    apply(
        block("{h100: {gpus: 8, borrowing_limit: 4, lending_limit: 0}, l40s: {gpus: 2, borrowing_limit: 1}}")
    )
    rows = {
        (row.flavor.name, row.resource): (row.borrowing_limit, row.lending_limit)
        for row in Quota.unscoped.filter(node__is_queue=True).select_related("flavor")
    }
    assert rows["h100", CARDS] == (4, 0)
    assert rows["h100", CORES] == (400, 0)
    assert rows["h100", MEMORY] == (4 * 81_920, 0)
    assert rows["l40s", CARDS] == (None, None), "the number of slices is never limited"
    assert rows["l40s", CORES] == (100, None)


def test_unlimited_gpus_are_unlimited_in_all() -> None:
    apply(block("{h100: unlimited}"))
    assert set(has("team-a", "h100", queue=True).values()) == {None}


def test_cpu_and_memory_that_are_left_out_stay_as_they_are() -> None:
    apply(block("{h100: {gpus: 8, cpu: 10, memory: 10Gi}}"))
    apply(block("{h100: {gpus: 16}}"))
    found = has("team-a", "h100", queue=True)
    assert (found["gpu.cards"], found["cpu"], found["memory"]) == (16, 10_000, 10_240)


def test_below_a_root_without_a_limit_cpu_and_memory_have_none_either() -> None:
    """Test quota as `flavor discover --apply --quota` leaves it."""
    call_command("flavor", "discover", "east", "--apply", "--quota", stdout=io.StringIO())
    apply(block("{h100: 16}", "tenants: [team-a, team-a/default]"))
    found = has("team-a", "h100", queue=True)
    assert (found["gpu.cards"], found["cpu"], found["memory"]) == (16, None, None)


def test_a_long_limit_beside_a_pool_is_not_followed_by_a_default() -> None:
    apply(f"""\
quotas:
  - {LEVELS}
    pools: {{h100: 8}}
    quotas:
      - {{flavor: h100, resource: cpu, nominal: 7}}
""")
    assert has("team-a", "h100", queue=True)["cpu"] == 7


# The pools of a block in line 3, and their faults: line, field and code.
BAD = {
    "a list": (block("[h100]"), [("3 pools", "TYPE")]),
    "a word": (block("h100"), [("3 pools", "TYPE")]),
    "no number": (block("{h100: many}"), [("3 gpus", "AMOUNT")]),
    "negative": (block("{h100: -1}"), [("3 gpus", "AMOUNT")]),
    "a fraction": (block("{h100: {gpus: 1.5}}"), [("3 gpus", "AMOUNT")]),
    "null": (block("{h100: {gpus: null}}"), [("3 gpus", "AMOUNT")]),
    "a list for a value": (block("{h100: {gpus: [1]}}"), [("3 gpus", "TYPE")]),
    "unknown field": (block("{h100: {cards: 1}}"), [("3 cards", "UNKNOWN")]),
    "field twice": (block("{h100: {gpus: 1, gpus: 2}}"), [("3 gpus", "TWICE")]),
    "pool twice": (block("{h100: 1, h100: 2}"), [("3 h100", "TWICE")]),
    "one pool by two names": (block("{h100: 1, east/h100: 2}"), [("3 gpus nominal", "TWICE")]),
    "cpu without sense": (block("{h100: {gpus: 1, cpu: lots}}"), [("3 cpu", "AMOUNT")]),
    "memory without a unit": (block("{h100: {gpus: 1, memory: 512}}"), [("3 memory", "AMOUNT")]),
    "other digits": (block("{h100: {gpus: 1, cpu: ٣}}"), [("3 cpu", "AMOUNT")]),
    "unknown pool": (block("{a100: 1}"), [("3 flavor", "UNKNOWN")]),
    "unknown cluster": (block("{west/h100: 1}"), [("3 flavor", "UNKNOWN")]),
    "gpus of a pool without": (block("{plain: 1}"), [("3 gpus", "NO_GPUS")]),
    "unknown tenant": (block("{h100: 1}", "tenants: [nobody]"), [("3 tenant", "UNKNOWN")]),
    "unknown queue": (block("{h100: 1}", "tenants: [team-a/none]"), [("3 queue", "UNKNOWN")]),
    "no tenant": (block("{h100: 1}", "queue: default"), [("2 tenant", "REQUIRED")]),
    "an empty tenant": (block("{h100: 1}", "tenants: ['']"), [("2 tenants", "REQUIRED")]),
    "tenants as a word": (block("{h100: 1}", "tenants: root"), [("2 tenants", "TYPE")]),
    "both": (block("{h100: 1}", "tenants: [root]\n    tenant: root"), [("3 tenant", "TWICE")]),
    "too large": (block("{h100: 9999999999999999999}"), [("3 gpus nominal", "TOO_LARGE")]),
    "neither": ("quotas:\n  - tenant: root\n", [("2 quotas", "TYPE")]),
    "on its own line": (
        "quotas:\n  - tenant: root\n    pools:\n      h100:\n        gpus: 1\n        cpu: x\n",
        [("6 cpu", "AMOUNT")],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), BAD.values(), ids=BAD)
def test_what_is_wrong_is_named_once_by_line_and_field(text: str, expected: list[tuple[str, str]]) -> None:
    assert faults(text) == expected


def test_a_sum_that_does_not_hold_names_the_line_and_the_pool() -> None:
    apply(block("{h100: {gpus: 8, cpu: 1, memory: 1Gi}}"))
    with pytest.raises(ExceedsParent) as refused:
        apply(block("{h100: 9}", "tenant: team-a\n    queue: default"))
    fields = {error.field for error in refused.value.errors}
    assert fields == {"q.yaml:4 gpus nominal"}


def test_a_pool_whose_nodes_are_away_wants_an_amount() -> None:
    Device.unscoped.filter(mode=GpuMode.WHOLE).update(healthy=False)
    assert faults(block("{h100: {gpus: 4, cpu: nodes, memory: 1Gi}}")) == [("3 cpu", "NO_NODES")]
    apply(block("{h100: {gpus: 4, cpu: unlimited, memory: unlimited}}"))
    assert has("team-a", "h100", queue=True)["gpu.cards"] == 4


AMOUNT = st.none() | st.integers(0, 30)
LIMIT = st.sampled_from(["own_nominal", "borrowing_limit", "lending_limit"])


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    gpus=st.dictionaries(st.sampled_from(["h100", "l40s", "mig"]), st.tuples(AMOUNT, AMOUNT, AMOUNT)),
    odd=st.lists(
        st.tuples(
            st.sampled_from(["h100", "l40s", "mig", "plain"]), st.sampled_from(list(Resource)), LIMIT, AMOUNT
        )
    ),
)
def test_what_is_exported_short_changes_nothing_when_it_is_applied(
    gpus: dict[str, tuple[Any, Any, Any]], odd: list[tuple[str, Resource, str, int | None]]
) -> None:
    """Limits that the short form cannot express are written one by one."""
    Quota.unscoped.all().delete()
    node = QuotaNode.unscoped.get(is_queue=True)
    of_gpu = {"h100": (1, 100, 81_920), "l40s": (None, 100, 46_068), "mig": (1, 15, 10_240)}
    rows: dict[tuple[str, Resource], dict[str, int | None]] = {}
    for name, limits in gpus.items():
        for resource, each in zip((CARDS, CORES, MEMORY), of_gpu[name], strict=True):
            rows[name, resource] = {
                field: None if n is None or each is None else n * each
                for field, n in zip(("own_nominal", "borrowing_limit", "lending_limit"), limits, strict=True)
            }
    for name, resource, field, amount in odd:
        rows.setdefault((name, resource), {"own_nominal": 0})[field] = amount
    for (name, resource), limits_of in rows.items():
        Quota.unscoped.create(
            node=node, flavor=Flavor.unscoped.get(name=name), resource=resource.value, **limits_of
        )
    text = quota_file_export(viewer=admin(), kind=FileFormat.YAML, short=True)
    assert quota_file_check(acting_user=admin(), file=as_file(text)).changes == []
    if gpus and not odd:
        assert set(yaml.safe_load(text)["quotas"][-1]) <= {"tenant", "queue", "pools"}


def test_the_command_writes_what_it_reads() -> None:
    apply(block("{h100: {gpus: 16, cpu: 1500m, memory: 512Gi}, l40s: {gpus: 4, cpu: 64, memory: nodes}}"))
    out = io.StringIO()
    call_command("quota", "export", "--short", "--tenant", "team-a", stdout=out)
    blocks = yaml.safe_load(out.getvalue())["quotas"]
    pools = {"gpus": 16, "borrowing_limit": "unlimited", "lending_limit": "unlimited"}
    assert blocks[0]["pools"]["h100"] == pools | {"cpu": "1500m", "memory": "512Gi"}
    assert blocks[1]["queue"] == "default"
    assert "    h100: {gpus: 16, " in out.getvalue()
    with pytest.raises(CommandError, match="requires YAML"):
        call_command("quota", "export", "--short", "--format", "csv", stdout=out)


def test_a_pool_of_a_second_cell_is_written_with_its_cluster() -> None:
    """A file is read without knowing the cell, so the name alone would mean both pools."""
    other: Cluster = clusters.cluster(Cell.unscoped.create(name="second"), "west")
    clusters.node(clusters.flavor(other, "h100"), "n")
    apply(block("{east/h100: 4}"))
    for short in (True, False):
        text = quota_file_export(viewer=admin(), kind=FileFormat.YAML, short=short)
        assert quota_file_check(acting_user=admin(), file=as_file(text)).changes == []


def test_many_tenants_and_many_pools_are_read_in_time_that_grows_with_the_file() -> None:
    """The two lists multiply to more limits than a file may have, and each is read once."""
    tenants = ",".join(["t"] * 15_000)
    for pools in (",".join(["p: x"] * 15_000), ",".join(f"p{n}: 1" for n in range(9_000))):
        text = f"quotas:\n - tenants: [{tenants}]\n   pools: {{{pools}}}\n"
        begun = time.process_time()
        with pytest.raises(Invalid):
            read_rows(text, FileFormat.YAML, "q.yaml")
        assert time.process_time() - begun < 10
    assert Tenant.unscoped.exists()


def test_the_examples_of_the_document_are_read_as_it_says() -> None:
    document = (Path(__file__).parents[3] / "docs" / "quota-files.md").read_text(encoding="utf-8")
    short, long = re.findall(r"```yaml\n(.*?)```", document, re.DOTALL)
    assert [row.tenant for row in read_rows(short, FileFormat.YAML, "q")] == [
        "organization", "organization", "research", "research", "research", "research",
    ]  # fmt: skip
    assert {row.queue for row in read_rows(long, FileFormat.YAML, "q")} == {"default"}
    with pytest.raises(Invalid) as refused:
        read_rows(short.replace("16", "many"), FileFormat.YAML, "quotas.yaml")
    (error,) = refused.value.errors
    assert f"{error.field}: {error.message}" in document
