"""The jobs of the demo: training for hours, experiments for minutes, notebooks on slices.

They are the same in the simulated week and afterwards, so that run times learned from the week apply to later
jobs. Times are seconds.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from allotment.demo.setup import IDLE_TEAM, MAY_USE_HIGH, WORKSPACES

SEED: Final = 41
DAYS: Final = 8
"""The week ends within its last day, so that the hours of its days are those of the calendar."""
DAY_S: Final = 86_400
# Share of a day's jobs that arrive in each hour: users work from nine to seven, and start long jobs in the
# evening.
_HOURS: Final = (1, 1, 1, 1, 1, 1, 2, 4, 7, 10, 11, 10, 8, 9, 11, 11, 10, 9, 9, 6, 4, 3, 2, 1)
_BUSY: Final = (0.8, 1.0, 1.15, 1.05, 1.2, 0.9, 1.1, 1.0)
"""The arrivals of each day, relative to the mean."""
_FAILS: Final = 0.07
_CANCELED: Final = 0.04
_MOST_OUTCOME_SHARE: Final = 0.85


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DemoKind:
    """One kind of work: how many jobs a day, their sizes with weights, and their run times.

    `run_s` are the shortest, the median and the longest run time of one GPU.
    """

    name: str
    per_day: int
    gpus: Mapping[int, int]
    run_s: tuple[int, int, int]
    words: tuple[str, ...]
    image: str
    checkpoint_s: int | None = None


TRAINING: Final = DemoKind(
    name="training", per_day=29, gpus={2: 2, 4: 4, 8: 8, 16: 3}, run_s=(2_400, 16_000, 130_000),
    words=("llama-sft", "asr-train", "ctr-rank", "diffusion", "policy-grad"),
    image="nvcr.io/nvidia/pytorch:25.08-py3", checkpoint_s=1_800,
)  # fmt: skip
EXPERIMENT: Final = DemoKind(
    name="experiment", per_day=75, gpus={1: 8, 2: 4, 4: 3, 8: 1}, run_s=(90, 480, 2_400),
    words=("eval", "ablation", "resnet", "embed", "profile"), image="pytorch/pytorch:2.8",
)  # fmt: skip
NOTEBOOK: Final = DemoKind(
    name="notebook", per_day=80, gpus={1: 1}, run_s=(1_800, 14_400, 60_000), words=("notebook",),
    image="jupyter/pytorch:2.8",
)  # fmt: skip
CLASSES: Final = (TRAINING, EXPERIMENT, NOTEBOOK)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoJob:
    """One job: its arrival, its owner, its job file, its run time and its outcome.

    `outcome` is succeeded, failed or cancelled; `use` the mean utilization of its GPUs, from 0 to 1.
    """

    at_s: int
    workspace: str
    user: str
    body: Mapping[str, Any]
    run_s: int
    outcome: str
    use: float

    @property
    def gpu_count(self) -> float:
        """The number of its GPUs; a slice counts as its share of one."""
        return float(
            sum(
                role["replicas"] * gpu["cards"] * gpu.get("cores", 100) / 100
                for role in self.body["roles"]
                for gpu in [role["resources"]["gpu"]]
            )
        )


def draw_week(seed: int = SEED) -> list[DemoJob]:
    """Return all jobs of the week in order of their arrival; equal seeds draw equal weeks."""
    chance = random.Random(seed)
    arrivals = sorted(
        (day * DAY_S + _second_of_day(chance), chance.random(), kind.name)
        for day in range(DAYS)
        for kind in CLASSES
        for _ in range(round(kind.per_day * _BUSY[day]))
    )
    kinds = {kind.name: kind for kind in CLASSES}
    return [draw_job(chance, number, kinds[name], at) for number, (at, _, name) in enumerate(arrivals)]


def _second_of_day(chance: random.Random) -> int:
    return chance.choices(range(24), weights=_HOURS)[0] * 3600 + chance.randrange(3600)


def draw_job(chance: random.Random, number: int, kind: DemoKind, at_s: int) -> DemoJob:
    """Return one job of a class; its name ends with its number."""
    plan = chance.choices(WORKSPACES, weights=[w.arrivals for w in WORKSPACES])[0]
    gpus = chance.choices(list(kind.gpus), weights=list(kind.gpus.values()))[0]
    idle = plan.slug == IDLE_TEAM and kind is TRAINING
    outcome = chance.choices(
        ("failed", "cancelled", "succeeded"), weights=(_FAILS, _CANCELED, 1 - _FAILS - _CANCELED)
    )[0]
    run_s = _draw_run_s(chance, kind)
    if outcome != "succeeded":
        run_s = max(30, int(run_s * chance.uniform(0.02, _MOST_OUTCOME_SHARE)))
    use = round(chance.uniform(0.0, 0.02), 3) if idle else _draw_use(chance, kind)
    return DemoJob(
        at_s=at_s,
        workspace=plan.slug,
        user=chance.choice(plan.people),
        body={
            "kind": "notebook" if kind is NOTEBOOK else ("batch" if gpus == 1 else "pytorch"),
            "name": f"{chance.choice(kind.words)}-{number}",
            "queue": "default",
            "priority_class": _draw_priority(chance, plan.slug),
            **({"checkpoint_interval_s": kind.checkpoint_s} if kind.checkpoint_s else {}),
            "roles": [_slice_role(chance, kind)] if kind is NOTEBOOK else list(_roles(gpus, kind)),
            "simulate": {
                "run_s": run_s,
                "exit_code": 1 if outcome == "failed" else 0,
                "gpu_utilisation": use,
            },
        },
        run_s=run_s,
        outcome=outcome,
        use=use,
    )


def _draw_run_s(chance: random.Random, kind: DemoKind) -> int:
    low, median, high = kind.run_s
    # Run times are skewed: half of them lie below the median, and each half is uniform on a logarithmic
    # scale.
    near, far = (low, median) if chance.random() < 0.5 else (median, high)
    share: float = chance.random() ** 1.5 if far == high else chance.random()
    return round(float(near ** (1 - share) * far**share))


def _draw_use(chance: random.Random, kind: DemoKind) -> float:
    mean, spread = (0.22, 0.15) if kind is NOTEBOOK else (0.66, 0.2)
    return round(min(0.97, max(0.03, chance.gauss(mean, spread))), 2)


def _draw_priority(chance: random.Random, slug: str) -> str:
    if slug == MAY_USE_HIGH and chance.random() < 0.2:
        return "high"
    return "low" if chance.random() < 0.2 else "normal"


def _slice_role(chance: random.Random, kind: DemoKind) -> dict[str, Any]:
    cores = chance.choice((20, 25, 30, 50))
    gpu = {"cards": 1, "mode": "slice", "cores": cores, "memory": f"{460 * cores}Mi", "model": ["L40S"]}
    resources = {"cpu": 2, "memory": "16Gi", "gpu": gpu}
    return {"name": "main", "replicas": 1, "image": kind.image, "resources": resources}


def _roles(gpus: int, kind: DemoKind) -> Iterator[dict[str, Any]]:
    """Yield the roles: up to eight GPUs on one node; more as one master and workers of a whole node each."""
    per_task, tasks = min(gpus, 8), max(1, gpus // 8)
    resources = {
        "cpu": 8 * per_task,
        "memory": f"{64 * per_task}Gi",
        "gpu": {"cards": per_task, "mode": "whole", "model": ["A100-40G"]},
    }
    common = {"image": kind.image, "command": ["python", "train.py"], "resources": resources}
    yield {"name": "master", "replicas": 1, **common}
    if tasks > 1:
        yield {"name": "worker", "replicas": tasks - 1, **common}
