"""The node that is selected for a claim with a volume created on demand, and the nodes for its pods."""

from __future__ import annotations

from typing import Final

import pytest

from clusters.backends.base import BackendUnavailable
from clusters.backends.simulated.backend import SimulatedBackend
from clusters.backends.volumes import NodeTerms, VolumeClaim
from clusters.models import Cluster
from scheduling.execution.volumes.node_selection import NodeSelection, restrict_nodes

ZONES: Final[NodeTerms] = [[{"key": "zone", "operator": "In", "values": ["a"]}]]
USABLE: Final = ("n1", "n2", "n3")
_CASES: Final = {
    # selected on the claim, by the platform, nodes of pods, selected now, pods are placed on
    "nothing waits": ("", False, [], "", ""),
    "a pod waits": ("", False, ["n1"], "n1", "n1"),
    "the first of several": ("", False, ["n2", "n1"], "n2", "n2"),
    "selected already": ("n1", True, ["n1"], "", "n1"),
    "of another pod": ("n1", True, ["n2", "n1"], "", "n1"),
    "given back": ("n1", True, [], "", "n1"),
    "given back, and placed elsewhere before": ("n1", True, ["n2"], "", "n1"),
    "no longer usable": ("gone", True, [], "", ""),
    "no longer usable, and placed elsewhere": ("gone", True, ["n2"], "n2", "n2"),
    "no longer usable, and a pod is there": ("gone", True, ["n2", "gone"], "", "gone"),
    "by another scheduler": ("n1", False, [], "", "n1"),
    "by another scheduler, elsewhere": ("n1", False, ["n2"], "", "n1"),
    "by another scheduler, no longer usable": ("gone", False, ["n2"], "", "gone"),
}


@pytest.mark.parametrize("case", _CASES)
def test_the_node_of_the_first_pod_is_selected_unless_one_is_that_can_still_be_used(case: str) -> None:
    found, here, users, node, placed = _CASES[case]
    claim = VolumeClaim("data", selected_node=found, selected_here=here, topologies=ZONES)
    selection = NodeSelection("team", claim, users, USABLE)
    assert selection.node_to_select == node
    named = [[{"key": "metadata.name", "operator": "In", "values": [placed]}]]
    assert restrict_nodes(selection) == (named if placed else ZONES)


def test_a_cluster_that_refuses_is_asked_again_by_the_next_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster, asked = Cluster(name="east"), list[str]()

    def refuse(backend: object, namespace: str, claim: VolumeClaim, node: str) -> None:
        asked.append(node)
        raise BackendUnavailable("refused")

    monkeypatch.setattr(SimulatedBackend, "annotate_selected_node", refuse)
    backend = SimulatedBackend(cluster)
    NodeSelection("team", VolumeClaim("data"), ["n1"], USABLE).annotate_claim(cluster, backend)
    NodeSelection("team", VolumeClaim("data"), [], USABLE).annotate_claim(cluster, backend)
    assert asked == ["n1"]
