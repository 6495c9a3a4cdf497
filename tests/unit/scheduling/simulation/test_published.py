"""The engine against published and reference results on the shared traces."""

from __future__ import annotations

import csv
import gzip
from pathlib import Path

import pytest

from scheduling.simulation.clock import Record, Replay
from scheduling.simulation.openb import read_arrivals, read_nodes, read_pods, scale_trace
from scheduling.simulation.pack import PackReport, run_pack
from scheduling.simulation.philly import read_jobs, read_tenants
from scheduling.simulation.pools import pool_policy

pytestmark = pytest.mark.shared


NAMES = {
    "bestfit": "05-BestFit",
    "clustering": "03-GpuClustering",
    "dotprod": "02-DotProd",
    "fgd": "06-FGD",
    "packing": "04-GpuPacking",
}
GOLDEN = "golden_FGD_default_seed42_placements.csv.gz"


def packed(folder: Path, policy: str, trace: str, seed: int) -> PackReport:
    nodes = read_nodes(folder / "openb_node_list_gpu_node.csv")
    pods = read_pods(folder / f"openb_pod_list_{trace}.csv")
    stream = folder / "arrivals" / f"{trace}.jsonl.gz"
    arrivals = read_arrivals(stream, seed, pods=len(pods), nodes=len(nodes))
    ranked, order = scale_trace(nodes, arrivals, len(pods), 1)
    return run_pack(ranked, pods, order, policy=policy, seed=seed)


def published(folder: Path, table: str, policy: str, trace: str, seed: int) -> dict[str, str]:
    wanted = (f"openb_pod_list_{trace}", NAMES[policy], str(seed))
    with (folder / f"published_{table}.csv").open() as stream:
        rows = csv.DictReader(stream)
        return next(row for row in rows if (row["workload"], row["sc_policy"], row["seed"]) == wanted)


@pytest.mark.parametrize(
    ("policy", "trace", "seed"),
    [
        ("bestfit", "gpuspec33", 42),
        ("dotprod", "gpushare40", 44),
        ("packing", "multigpu50", 46),
        ("clustering", "gpuspec25", 44),
        ("fgd", "multigpu30", 46),
    ],
)
def test_policies_meet_their_published_curves(shared_dir: Path, policy: str, trace: str, seed: int) -> None:
    folder = shared_dir / "traces" / "openb"
    report = packed(folder, policy, trace, seed)
    curve = published(folder, "allocation", policy, trace, seed)
    for at, value in enumerate(report.curve):
        assert value == pytest.approx(float(curve[str(at)]), abs=0.0101), at
    ratios = published(folder, "fragmentation_ratio", policy, trace, seed)
    for at, ratio in report.fragmentation.items():
        assert ratio == pytest.approx(float(ratios[str(at)]), abs=0.0101), at


def test_fgd_takes_the_node_and_card_that_its_own_simulator_took(shared_dir: Path) -> None:
    folder = shared_dir / "traces" / "openb"
    report = packed(folder, "fgd", "default", 42)
    with gzip.open(folder / GOLDEN, "rt") as stream:
        golden = list(csv.DictReader(stream))
    assert [(row["pod"], row["node"]) for row in golden] == [
        (entry.pod, entry.node) for entry in report.packed
    ]
    shared = [
        (row, entry) for row, entry in zip(golden, report.packed, strict=True) if row["gpu_dev_if_shared"]
    ]
    assert len(shared) == 3038
    assert all(entry.devices == (int(row["gpu_dev_if_shared"]),) for row, entry in shared)


REFERENCE = {
    "static-fifo": {"7f04ca": 1412, "2869ce": 21172, "0e4a51": 101491, "ee9e8c": 127310},
    "static-sjf": {"7f04ca": 857, "2869ce": 7344, "0e4a51": 36682, "ee9e8c": 14464},
    "shared-fifo": {"7f04ca": 1394, "2869ce": 1026, "0e4a51": 1308, "ee9e8c": 1226},
    "shared-fifo-skip": {"7f04ca": 136, "2869ce": 392, "0e4a51": 1308, "ee9e8c": 551},
}
HARMED = {"static-fifo": 0, "shared-fifo": 184, "shared-fifo-skip": 100}


def mean_queue(records: list[Record], tenant: str) -> float:
    waits = [record.queue_s for record in records if record.job.tenant == tenant]
    return sum(wait for wait in waits if wait is not None) / len(waits)


@pytest.mark.parametrize("policy", REFERENCE)
def test_philly_waits_as_in_the_reference_runs(shared_dir: Path, policy: str) -> None:
    folder = shared_dir / "traces" / "philly"
    tenants = read_tenants(folder / "vcs.csv")
    records = Replay(tenants, pool_policy(policy)).run(read_jobs(folder / "jobs.csv", tenants))
    assert len(records) == 8299
    for tenant, expected in REFERENCE[policy].items():
        # The reference is stated in whole seconds.
        assert mean_queue(records, tenant) == pytest.approx(expected, rel=0.0005, abs=0.5)
    with (folder / "private_cluster_wait_s.csv").open() as stream:
        alone = {f"{row['vc']}-{row['vc_job_no']}": int(row["wait_fifo_s"]) for row in csv.DictReader(stream)}
    if policy in HARMED:
        late = [record for record in records if (record.queue_s or 0) > alone[record.job.name] + 60]
        assert len(late) == HARMED[policy]
