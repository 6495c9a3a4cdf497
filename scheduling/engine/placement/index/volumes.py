"""This module decides which nodes can mount a volume, and names the claims that exclude nodes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from scheduling.engine.model import ClaimState, MountedVolume, Node, Numbers, Reason
from scheduling.engine.model.labels import matches_any_term
from scheduling.engine.placement.index.question import Question

VOLUME_CLAIM: Final = "volume-claim"
VOLUME_NODE_AFFINITY: Final = "volume-node-affinity"
NODE_NAME_FIELD: Final = "metadata.name"
"""The field by which terms name nodes, beside their labels."""
CLAIM: Final = "claim"
"""The number of an outcome that names the claim to which it is due."""
CLAIMS: Final = "claims"
"""The same for several claims, none of which alone excludes all these nodes; their names with commas."""
EXCLUDED_NODES: Final = "excluded_nodes"
"""The number of nodes that would take a task and can't mount the volume of that claim, or of all those."""
SUITABLE_NODES: Final = "suitable_nodes"
"""The same if all nodes were empty."""
_STATE_OF: Final = {f"{state}_{CLAIM}": state for state in ClaimState if state is not ClaimState.BOUND}


def can_mount(node: Node, claim: MountedVolume) -> bool:
    """Return whether the volume of a bound claim can be mounted on a node."""
    return not claim.terms or matches_any_term({**node.labels, NODE_NAME_FIELD: node.hostname}, claim.terms)


def describe_excluding_claim(question: Question, rows: Sequence[int]) -> Numbers:
    """Return the claim to which it is due that the task is refused by the nodes of some rows.

    One that is not bound is named as `<state>_claim` with the cluster, one that excludes all these nodes with
    their number. If none does, all that exclude some of them are named together.
    """
    nodes = question.nodes(slice(None))
    cluster = question.flavor.cluster
    for claim in question.task.volume_claims:
        if claim.state is not ClaimState.BOUND:
            return {CLAIM: claim.name, f"{claim.state}_{CLAIM}": claim.name, "cluster": cluster}
    excluding: list[str] = []
    for claim in question.task.volume_claims:
        number = sum(not can_mount(nodes[row], claim) for row in rows)
        if number == len(rows):
            return {CLAIM: claim.name, EXCLUDED_NODES: number}
        excluding += [claim.name] if number else []
    return {CLAIM: excluding[0], CLAIMS: ",".join(excluding), EXCLUDED_NODES: len(rows)} if excluding else {}


def reason_of_claim(numbers: Numbers) -> Reason:
    """Return the reason of an outcome that names a claim."""
    states = [state for name, state in _STATE_OF.items() if name in numbers]
    if not states:
        is_lasting = SUITABLE_NODES in numbers
        return Reason.VOLUME_NODES_TOO_SMALL if is_lasting else Reason.VOLUME_NODE_CONFLICT
    unread = ClaimState.UNREAD in states
    return Reason.VOLUME_CLAIM_UNREAD if unread else Reason.VOLUME_CLAIM_NOT_BOUND
