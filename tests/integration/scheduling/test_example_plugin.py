"""The example package under `docs/examples`, built and installed as a user would do it."""

from __future__ import annotations

import ast
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.programs import run_to_end

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "docs" / "examples" / "allotment-ssd-only"
PUBLIC = {"numpy", "scheduling.engine", "scheduling.engine.model"}

# Runs where the package is installed, and imports what the package itself may import.
PROBE = """
import dataclasses, json
from scheduling.engine import BUILTIN, EngineConfig, Snapshot, run_cycle, with_entry_points
from scheduling.engine.model import Flavor, Instant, Job, Node, Queue, Quota, QuotaNode, Request, Role
from scheduling.engine_input.config import engine_config

def cycle(labels, **facts):
    role = Role(name="worker", replicas=1, request=Request(cpu=1000))
    snapshot = Snapshot(
        nodes=[Node(id=f"n{i}", cpu=8000, memory=1024, labels=own) for i, own in enumerate(labels)],
        flavors=[Flavor(id="cpu")],
        quota_nodes=[QuotaNode(id="team", quotas=(Quota(flavor="cpu", resource="cpu", own_nominal=None),))],
        queues=[Queue(id="team", quota_node="team", flavors=("cpu",))],
        jobs=[Job(id="j", queue="team", roles=(role,), submitted_at=Instant(0))],
    )
    result = run_cycle(snapshot, EngineConfig(plugins=with_entry_points(BUILTIN), **facts), Instant(1))
    (outcome,) = result.outcomes
    nodes = [task.node for decision in result.decisions for task in decision.allocations]
    return {"nodes": nodes, "reason": outcome.reason, "numbers": dict(outcome.numbers)}

default = EngineConfig()
veto = {"vetoes": (*default.vetoes, "ssd-only")}
score = {"policies": (("compact", (("compact", 1), ("large-disk", 5))),)}
disks = [{"disktype": "hdd"}, {"disktype": "ssd", "disk-gib": "900"}, {"disktype": "ssd", "disk-gib": "1800"}]
print(json.dumps({
    "bare": cycle(disks), "veto": cycle(disks, **veto), "both": cycle(disks, **veto, **score),
    "refused": cycle([{}, {"disktype": "hdd"}], **veto), "platform": engine_config().vetoes,
}))
"""


@pytest.fixture(scope="module")
def seen(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the output of cycles with the installed package. The build tool is installed: no network."""
    target = tmp_path_factory.mktemp("installed")
    install = ["install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    where = {**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    _run([sys.executable, "-m", "pip", *install, "--target", str(target), str(EXAMPLE)], where)
    path = os.pathsep.join(map(str, (target, ROOT, ROOT / "platform")))
    found: dict[str, Any] = json.loads(_run([sys.executable, "-c", PROBE], {**where, "PYTHONPATH": path}))
    return found


def _run(command: list[str], environment: dict[str, str]) -> str:
    done = run_to_end(command, capture_output=True, text=True, within_s=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_veto_keeps_tasks_to_labelled_nodes(seen: dict[str, Any]) -> None:
    assert seen["bare"]["nodes"] == ["n0"]
    assert seen["veto"]["nodes"] == ["n1"]


def test_the_veto_is_named_in_the_outcome_that_it_caused(seen: dict[str, Any]) -> None:
    assert seen["refused"]["nodes"] == []
    assert seen["refused"]["reason"] == "NEVER_FITS"
    assert seen["refused"]["numbers"]["refused.ssd-only"] == 2


def test_the_score_changes_the_choice(seen: dict[str, Any]) -> None:
    assert seen["both"]["nodes"] == ["n2"]


def test_the_platform_asks_an_installed_veto(seen: dict[str, Any]) -> None:
    assert seen["platform"][-1] == "ssd-only"


def test_the_example_imports_the_public_engine_alone() -> None:
    modules = {
        module
        for file in EXAMPLE.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        for module in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) and node.module != "__future__"
            else []
        )
    }  # fmt: skip
    assert "scheduling.engine" in modules
    assert modules <= PUBLIC
