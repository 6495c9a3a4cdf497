"""Converts the request of a task of a case to the engine's request.

CPU stays in millicores, memory in bytes; a card has a thousand cores, so that fractions are exact. A fraction
of a card takes only cores; a request for GPU memory takes the equal share of cores, so that both are
comparable.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from scheduling.conformance.errors import BadCase, Skipped
from scheduling.engine.model import (
    AffinityOperator,
    Expression,
    Extended,
    GpuMode,
    GpuRequest,
    PlacementRules,
    PodTerm,
    QosClass,
    Request,
)

CARD_CORES = 1000
NODE_LABEL = "kai.scheduler/type"
LEGACY_MIG = "legacy MIG instance"
MIG = re.compile(r"nvidia\.com/mig-(?P<profile>(?P<slices>\d+)g\.\d+gb(?:[.+]\w+)*)")


def mig_amounts(resources: Mapping[str, Any]) -> dict[str, int]:
    """Return the numbers of MIG instances by profile among named resources."""
    found = ((MIG.fullmatch(name), amount) for name, amount in resources.items())
    return {match["profile"]: int(amount) for match, amount in found if match is not None}


def gpus_of(profile: str) -> int:
    """Return the number of cards as which KAI's queues count an instance."""
    return int(profile.split("g.", 1)[0])


def build_request(task: Mapping[str, Any], qos: str, *, legacy: bool) -> Request:
    """Return the request of one resolved task. A `legacy` task names its MIG instance in an annotation, and
    requests a resource that no node offers.

    Raises:
        BadCase: when its kind is unknown.
        Skipped: when it requests instances of several profiles.
    """
    asked = task["requests"]
    return Request(
        cpu=int(asked.get("cpu", 0)),
        memory=int(asked.get("memory", 0)),
        gpu=_gpu(task),
        extended=(Extended(LEGACY_MIG, 1),) if legacy else (),
        qos=QosClass.GUARANTEED if qos == "Guaranteed" else QosClass.BURSTABLE,
    )


def _gpu(task: Mapping[str, Any]) -> GpuRequest | None:
    kind, wanted = task["requestType"], task.get("gpuRequirement", {})
    match kind:
        case "Regular":
            cards = int(wanted.get("gpus", 0))
            return GpuRequest(cards=cards) if cards else None
        case "Fraction":
            cores = round(CARD_CORES * float(wanted["portion"]))
            return GpuRequest(cards=int(wanted.get("count", 1)), mode=GpuMode.SLICE, cores=cores, memory=0)
        case "GpuMemory":
            return GpuRequest(
                cards=int(wanted.get("count", 1)), mode=GpuMode.SLICE, memory=int(wanted["gpuMemory"])
            )
        case "MigInstance":
            instances = mig_amounts(task["requests"])
            if len(instances) != 1:
                raise Skipped(f"{task['uid']} asks for MIG instances of several profiles")
            ((profile, cards),) = instances.items()
            return GpuRequest(cards=cards, mode=GpuMode.MIG, profile=profile)
    raise BadCase(f"task {task['uid']}: requestType {kind!r} is unknown")


def build_rules(raw: Mapping[str, Any]) -> PlacementRules:
    """Return the placement rules. A task also has the labels that its (anti-)affinity selects."""
    labels: Mapping[str, str] = raw.get("PodAffinityLabels", {})
    names = tuple(raw.get("NodeAffinityNames", ()))
    wanted = tuple(Expression(key, AffinityOperator.IN, (value,)) for key, value in sorted(labels.items()))
    near, apart = raw.get("PodAffinityTopologyKey"), raw.get("PodAntiAffinityTopologyKey")
    return PlacementRules(
        node_affinity=((Expression(NODE_LABEL, AffinityOperator.IN, names),),) if names else (),
        namespace="default" if labels else "",
        labels=labels,
        pod_affinity=(PodTerm(near, wanted),) if near else (),
        pod_anti_affinity=(PodTerm(apart, wanted),) if apart else (),
    )
