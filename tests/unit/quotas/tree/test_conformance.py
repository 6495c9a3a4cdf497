"""The quota arithmetic against the exported cases of Kueue's `TestAvailable`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from quotas.tree import Branch, NodeLimits, QuotaTree


def canonical(resource: str, quantity: str | None) -> int | None:
    if quantity is None:
        return None
    factors = {"m": 1, "k": 10**3, "M": 10**6, "G": 10**9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
    for suffix, factor in factors.items():
        if quantity.endswith(suffix):
            return int(quantity.removesuffix(suffix)) * factor
    return int(quantity) * (1000 if resource == "cpu" else 1)


def limits_of(spec: dict[str, Any]) -> dict[str, NodeLimits]:
    return {
        f"{flavor['name']}/{resource['name']}": NodeLimits(
            canonical(resource["name"], resource["nominalQuota"]),
            canonical(resource["name"], resource.get("borrowingLimit")),
            canonical(resource["name"], resource.get("lendingLimit")),
        )
        for group in spec.get("resourceGroups", [])
        for flavor in group["flavors"]
        for resource in flavor["resources"]
    }


def tree_of(case: dict[str, Any]) -> QuotaTree[str]:
    branches: dict[str, Branch[str]] = {}
    for cohort in case.get("cohorts", []):
        spec = cohort.get("spec", {})
        parent = spec.get("parentName")
        name = "cohort:" + cohort["metadata"]["name"]
        branches[name] = Branch(name, parent and f"cohort:{parent}", limits_of(spec))
    for queue in case["clusterQueues"]:
        parent = queue["spec"].get("cohortName")
        name = queue["metadata"]["name"]
        branches[name] = Branch(name, parent and f"cohort:{parent}", limits_of(queue["spec"]))
    for branch in list(branches.values()):
        if branch.parent is not None:
            branches.setdefault(branch.parent, Branch(branch.parent, None, {}))
    return QuotaTree(branches.values())


@pytest.mark.shared
def test_kueue_available(shared_dir: Path) -> None:
    file = shared_dir / "conformance" / "kueue" / "TestAvailable.json"
    if not file.exists():
        pytest.skip(f"no {file}: set ALLOTMENT_SHARED to the folder with the conformance cases")
    cases = json.loads(file.read_text())["cases"]
    assert cases
    for case in cases:
        quotas = tree_of(case["input"])
        rows = [(queue, key) for queue, keys in case["expected"]["available"].items() for key in keys]
        for queue, key in rows:
            wanted = case["expected"]["potentiallyAvailable"][queue][key]
            assert quotas.available(queue, key) == wanted == quotas.potential(queue, key), case["name"]
        for queue, usage in case["input"].get("usage", {}).items():
            for key, amount in usage.items():
                quotas.add_usage(queue, key, amount)
        for queue, key in rows:
            available = quotas.available(queue, key)
            assert available is not None
            assert max(0, available) == case["expected"]["available"][queue][key], case["name"]
