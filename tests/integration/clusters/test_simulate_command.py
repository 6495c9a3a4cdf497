"""`allotment simulate`, and which backend serves which cluster."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from clusters.backends.base import ClusterBackend
from clusters.backends.registry import BackendMissing, backend_for
from clusters.backends.simulated import faults
from clusters.models import Cell, Cluster, SimulatedCluster


def simulate(*words: str) -> str:
    out = io.StringIO()
    call_command("simulate", *words, stdout=out)
    return out.getvalue().strip()


def refusal(*words: str) -> tuple[int, str]:
    with pytest.raises(CommandError) as caught:
        simulate(*words)
    message = str(caught.value)
    assert "\n" not in message
    return caught.value.returncode, message


def test_nodes_fail_and_recover(sim: Any) -> None:
    assert simulate("node", "fail", "whole-01") == "cluster sim: Node whole-01 failed"
    assert not sim.node("whole-01").ready
    simulate("node", "recover", "whole-01")
    simulate("node", "cordon", "whole-01", "--cluster", "sim")
    assert (sim.node("whole-01").ready, sim.node("whole-01").cordoned) == (True, True)


def test_cards_fail_and_recover(sim: Any) -> None:
    uuid = sim.node("whole-01").devices[0].uuid
    simulate("device", "fail", uuid)
    assert not sim.node("whole-01").devices[0].healthy
    simulate("device", "recover", uuid)
    assert sim.node("whole-01").devices[0].healthy


def test_the_pace_and_the_api_server(sim: Any) -> None:
    simulate("speed", "60")
    assert SimulatedCluster.unscoped.get().anchors[-1][2] == 60
    simulate("api", "fail")
    assert refusal("node", "fail", "whole-01")[0] == 1
    assert simulate("api", "recover").endswith("API server restored")


def test_the_result_as_json(sim: Any, tmp_path: Path) -> None:
    result = json.loads(simulate("speed", "2", "--json", "-"))
    assert result == {"cluster": "sim", "command": "speed 2", "message": "speed set to 2x"}
    simulate("speed", "2", "--json", str(tmp_path / "result.json"))
    assert json.loads((tmp_path / "result.json").read_text()) == result


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("node", "fail", "x"), "no node 'x'"),
        (("device", "fail", "x"), "GPU 'x' not found"),
        (("speed", "fast"), "'fast' is not a number"),
        (("speed", "0"), "speed must be above 0"),
        (("node", "explode", "whole-01"), "is none of: node fail|cordon|silence|recover NAME"),
        (("node", "fail"), "is none of"),
        (("device", "xid", "x", "many"), "'many' is not a number"),
        (("device", "xid", "x", "1000"), "from 1 to 999"),
        (("device", "throttle", "x"), "GPU 'x' not found"),
        (("node", "silence", "x"), "no node 'x'"),
        (("speed", "2", "--cluster", "y"), "Simulated cluster 'y' not found"),
        (("speed", "2", "--json", "/nowhere/x"), "No such file"),
    ],
)
def test_bad_usage_is_reported_in_one_line(sim: Any, words: tuple[str, ...], said: str) -> None:
    code, message = refusal(*words)
    assert code == 2
    assert said in message


def test_one_of_several_clusters_must_be_named(sim: Any) -> None:
    Cluster.unscoped.create(cell=Cell.unscoped.get(), name="other", backend="simulated")
    assert "choose one with --cluster" in refusal("speed", "2")[1]
    assert refusal("speed", "2", "--cluster", "other") == (
        1,
        "cluster other: this simulated cluster has not been built yet",
    )


@pytest.mark.django_db
def test_without_a_simulated_cluster_it_says_so() -> None:
    assert refusal("speed", "2") == (2, "No simulated cluster")


def test_the_registry_knows_what_it_can_serve(sim: Any) -> None:
    assert isinstance(backend_for(sim.cluster), ClusterBackend)
    other = Cluster(name="real", backend="nomad")
    with pytest.raises(BackendMissing, match=r"nomad isn't available\. Valid: kubernetes, kueue, simulated"):
        backend_for(other)


def test_a_fault_and_its_end_may_be_repeated(sim: Any) -> None:
    for _ in range(2):
        faults.node_fail(sim.cluster.pk, "whole-01")
    cursor = sim.backend.observe_pods(None).cursor
    faults.node_fail(sim.cluster.pk, "whole-01")
    assert not sim.backend.observe_pods(cursor).observations
