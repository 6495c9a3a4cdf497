"""This module decides which nodes can mount a volume, and names the claims that exclude nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from scheduling.engine.model import (
    NODE_NAME_FIELD,
    ClaimState,
    MountedVolume,
    Node,
    Numbers,
    PlacementRules,
    Reason,
)
from scheduling.engine.model.labels import matches_any_term
from scheduling.engine.placement.index.question import Question

VOLUME_CLAIM: Final = "volume-claim"
VOLUME_NODE_AFFINITY: Final = "volume-node-affinity"
CLAIM: Final = "claim"
"""The number of an outcome that names the claim to which it is due."""
CLAIMS: Final = "claims"
"""The same for several claims, none of which alone excludes all these nodes; their names with commas."""
EXCLUDED_NODES: Final = "excluded_nodes"
"""The number of nodes that would take a task and can't mount the volume of that claim, or of all those."""
SUITABLE_NODES: Final = "suitable_nodes"
"""The same if all nodes were empty."""
UNCREATED_CLAIM: Final = "uncreated_claim"
"""The number that names a claim which excludes nodes only until its volume is created."""
_STATE_OF: Final = {f"{state}_{CLAIM}": state for state in ClaimState if state is not ClaimState.BOUND}


def can_mount(node: Node, claim: MountedVolume) -> bool:
    """Return whether the volume of a bound claim can be mounted on a node."""
    return not claim.terms or matches_any_term({**node.labels, NODE_NAME_FIELD: node.hostname}, claim.terms)


def remove_temporary_claims(rules: PlacementRules) -> PlacementRules:
    """Return the rules without the claims that exclude nodes only until their volume is created."""
    lasting = tuple(claim for claim in rules.volume_claims if not claim.temporary)
    return rules if lasting == rules.volume_claims else replace(rules, volume_claims=lasting)


def describe_excluding_claim(question: Question, rows: Sequence[int]) -> Numbers:
    """Return the claim to which it is due that the task is refused by the nodes of some rows.

    One that is not bound is named as `<state>_claim` with the cluster, one that excludes all these nodes with
    their number, preferably one that excludes them for good. If none does, all that exclude some of them are
    named together. A claim that excludes nodes only until its volume is created is the `uncreated_claim`.
    """
    nodes = question.nodes(slice(None))
    cluster = question.flavor.cluster
    for claim in question.task.volume_claims:
        if claim.state is not ClaimState.BOUND:
            return {CLAIM: claim.name, f"{claim.state}_{CLAIM}": claim.name, "cluster": cluster}
    excluding: list[MountedVolume] = []
    for claim in sorted(question.task.volume_claims, key=lambda claim: claim.temporary):
        number = sum(not can_mount(nodes[row], claim) for row in rows)
        if number == len(rows):
            excluding = [claim]
            break
        excluding += [claim] if number else []
    if not excluding:
        return {}
    uncreated = [claim.name for claim in excluding if claim.temporary]
    return {
        CLAIM: excluding[0].name,
        **({CLAIMS: ",".join(claim.name for claim in excluding)} if len(excluding) > 1 else {}),
        EXCLUDED_NODES: len(rows),
        **({UNCREATED_CLAIM: uncreated[0]} if uncreated else {}),
    }


def reason_of_claim(numbers: Numbers) -> Reason:
    """Return the reason of an outcome that names a claim."""
    states = [state for name, state in _STATE_OF.items() if name in numbers]
    if not states:
        is_lasting = SUITABLE_NODES in numbers
        return Reason.VOLUME_NODES_TOO_SMALL if is_lasting else Reason.VOLUME_NODE_CONFLICT
    unread = ClaimState.UNREAD in states
    return Reason.VOLUME_CLAIM_UNREAD if unread else Reason.VOLUME_CLAIM_NOT_BOUND
