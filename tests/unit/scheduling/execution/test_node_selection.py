"""Which node is selected for a claim whose volume is created on demand, and where its pods may be placed."""

from __future__ import annotations

from typing import Final

import pytest

from clusters.backends.base import BackendUnavailable
from clusters.backends.simulated.backend import SimulatedBackend
from clusters.backends.volumes import NodeTerms, VolumeClaim
from clusters.models import Cluster
from scheduling.execution.volumes.node_selection import NodeSelection, restrict_nodes

ZONES: Final[NodeTerms] = [[{"key": "zone", "operator": "In", "values": ["a"]}]]
_CASES: Final = {
    # selected on the claim, selected by the platform, nodes of pods: selected now, own after, placed on
    "nothing waits": ("", "", [], "", "", ""),
    "a pod waits": ("", "", ["n1"], "n1", "n1", "n1"),
    "the first of several": ("", "", ["n2", "n1"], "n2", "n2", "n2"),
    "selected already": ("n1", "n1", ["n1"], "", "n1", "n1"),
    "of another pod": ("n1", "n1", ["n2", "n1"], "", "n1", "n1"),
    "removed by the provisioner": ("", "n1", ["n1"], "n1", "n1", "n1"),
    "removed, and no pod waits": ("", "n1", [], "", "", ""),
    "given back": ("n1", "n1", [], "", "n1", ""),
    "given back, and placed elsewhere": ("n1", "n1", ["n2"], "n2", "n2", "n2"),
    "by another scheduler": ("n1", "", [], "", "", "n1"),
    "by another scheduler, elsewhere": ("n1", "", ["n2"], "", "", "n1"),
    "replaced by another scheduler": ("n3", "n1", ["n1"], "", "", "n3"),
}


@pytest.mark.parametrize("case", _CASES)
def test_the_node_of_the_first_pod_is_selected_unless_another_scheduler_did(case: str) -> None:
    found, before, users, node, own, placed = _CASES[case]
    claim = VolumeClaim("data", selected_node=found, topologies=ZONES)
    selection = NodeSelection("team", claim, before, users)
    assert (selection.node, selection.own) == (node, own)
    named = [[{"key": "metadata.name", "operator": "In", "values": [placed]}]]
    assert restrict_nodes(selection) == (named if placed else ZONES)


def test_a_cluster_that_refuses_is_asked_again_by_the_next_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, asked = Cluster(name="east"), list[str]()

    def refuse(backend: object, namespace: str, claim: VolumeClaim, node: str) -> None:
        asked.append(node)
        raise BackendUnavailable("refused")

    monkeypatch.setattr(SimulatedBackend, "annotate_selected_node", refuse)
    backend = SimulatedBackend(cluster)
    NodeSelection("team", VolumeClaim("data"), "", ["n1"]).write(cluster, backend)
    NodeSelection("team", VolumeClaim("data"), "", []).write(cluster, backend)
    assert asked == ["n1"]
