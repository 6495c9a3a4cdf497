"""A task as placement sees it: its request resolved for one flavor.

Two tasks of equal shape are interchangeable: they fit on the same nodes with the same scores. So the
shape is the key of every cache here.
"""

from __future__ import annotations

from dataclasses import dataclass

from scheduling.engine.model import (
    Expression,
    Flavor,
    GpuMode,
    PlacementRules,
    Request,
    Toleration,
)

CARD_PERCENT = 100


@dataclass(frozen=True, slots=True)
class TaskShape:
    """One task's needs. `cores` (core units) and `card_memory` (MiB) are per card.

    With `whole`, a card must be empty and is taken as it is; `cores` and `card_memory` are then what
    quota is charged for it.
    """

    flavor: str
    policy: str
    cpu: int = 0
    memory: int = 0
    cards: int = 0
    mode: GpuMode = GpuMode.WHOLE
    cores: int = 0
    card_memory: int = 0
    models: tuple[str, ...] = ()
    node_name: str | None = None
    selector: tuple[tuple[str, str], ...] = ()
    affinity: tuple[tuple[Expression, ...], ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    whole: bool = False


def resolve(request: Request, rules: PlacementRules, flavor: Flavor) -> TaskShape:
    """The shape that a request takes in a flavor.

    Percentages of memory refer to the flavor's card and round up to a MiB. A slice of all cores is a
    whole card: it takes and is charged the full memory.
    """
    gpu = request.gpu
    cards, mode, cores, memory, whole = 0, GpuMode.WHOLE, 0, 0, False
    if gpu is not None:
        cards, mode = gpu.cards, gpu.mode
        cores = flavor.card_cores if gpu.cores is None else gpu.cores
        whole = mode is GpuMode.WHOLE or cores >= flavor.card_cores
        if whole:
            memory = flavor.card_memory
        elif gpu.memory is not None:
            memory = gpu.memory
        else:
            memory = -(-flavor.card_memory * (gpu.memory_percent or 0) // CARD_PERCENT)
    return TaskShape(
        flavor=flavor.id,
        policy=flavor.policy,
        cpu=request.cpu,
        memory=request.memory,
        cards=cards,
        mode=mode,
        cores=cores,
        card_memory=memory,
        models=() if gpu is None else tuple(sorted(set(gpu.models))),
        node_name=rules.node_name,
        selector=tuple(sorted(rules.node_selector.items())),
        affinity=rules.node_affinity,
        tolerations=tuple(rules.tolerations) + flavor.tolerations,
        whole=whole,
    )
