"""The recorded week: the engine's decisions about the jobs of `jobs.draw_week`, one run a line, and
the predictions of starts that the platform would have made.

It is recorded once and kept in the package, because a week of cycles takes minutes and a start has seconds.
`allotment seed_demo --record` records it again, after a change of the jobs or the quotas of the demo.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("week.jsonl")
PREDICTIONS: Final = Path(__file__).with_name("predictions.jsonl")


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPlace:
    """A task on a node: names, indexes of its GPUs there, and its charge by resource.

    `cores` and `memory_mib` are what it holds of each of its GPUs.
    """

    role: str
    index: int
    node: str
    gpus: tuple[int, ...]
    cores: int
    memory_mib: int
    exclusive: bool
    cpu: int
    memory: int
    charge: Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """One run of a job, which is identified by its index in the week; times are seconds of the week.

    `end_s` is None for a run that lasts beyond the week, `rule` the reason of a preemption, "" for its own
    end. `beneficiary` is the job for which it was preempted. `borrowed` is by flavor name and resource, with
    a slash in between.
    """

    job: int
    admit_s: int
    end_s: int | None
    rule: str
    beneficiary: int | None
    flavor: str
    borrowed: Mapping[str, int]
    places: tuple[RecordedPlace, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedPrediction:
    """The predicted start of one job, with the columns of `StartPrediction`; `made_s` and `started_s` are
    seconds of the week. `started_s` is None for a job that waits beyond it."""

    job: int
    made_s: int
    started_s: int | None
    bounds: tuple[int | None, ...]
    simulated: tuple[int | None, ...]
    horizon_s: int
    futures: int
    runs: int
    run_group: str
    outcomes: int


def read_predictions(file: Path = PREDICTIONS) -> list[RecordedPrediction]:
    """Return the recorded predictions in the order in which they were made."""
    with file.open(encoding="utf-8") as lines:
        return [_read_prediction(json.loads(line)) for line in lines]


def write_predictions(predictions: Iterable[RecordedPrediction], file: Path = PREDICTIONS) -> None:
    """Write the predictions, in the order in which they were made."""
    with file.open("w", encoding="utf-8") as out:
        for one in predictions:
            out.write(json.dumps(asdict(one), separators=(",", ":")) + "\n")


def _read_prediction(values: dict[str, Any]) -> RecordedPrediction:
    ranges = {name: tuple(values[name]) for name in ("bounds", "simulated")}
    return RecordedPrediction(**{**values, **ranges})


def read_recording(file: Path = FILE) -> list[RecordedRun]:
    """Return the recorded runs in the order of their admission."""
    with file.open(encoding="utf-8") as lines:
        return [_read_run(json.loads(line)) for line in lines]


def write_recording(runs: Iterable[RecordedRun], file: Path = FILE) -> None:
    """Write the runs, in the order of their admission."""
    with file.open("w", encoding="utf-8") as out:
        for run in sorted(runs, key=lambda run: (run.admit_s, run.job)):
            out.write(json.dumps(list(_written(run)), separators=(",", ":")) + "\n")


def _written(run: RecordedRun) -> Iterator[Any]:
    yield from (run.job, run.admit_s, run.end_s, run.rule, run.beneficiary, run.flavor, run.borrowed)
    for place in run.places:
        of_gpus = (list(place.gpus), place.cores, place.memory_mib, int(place.exclusive))
        yield [place.role, place.index, place.node, *of_gpus, place.cpu, place.memory, place.charge]


def _read_run(values: list[Any]) -> RecordedRun:
    job, admit_s, end_s, rule, beneficiary, flavor, borrowed, *places = values
    return RecordedRun(
        job=job, admit_s=admit_s, end_s=end_s, rule=rule, beneficiary=beneficiary, flavor=flavor,
        borrowed=borrowed, places=tuple(map(_read_place, places)),
    )  # fmt: skip


def _read_place(values: list[Any]) -> RecordedPlace:
    role, index, node, gpus, cores, memory_mib, exclusive, cpu, memory, charge = values
    return RecordedPlace(
        role=role, index=index, node=node, gpus=tuple(gpus), cores=cores, memory_mib=memory_mib,
        exclusive=bool(exclusive), cpu=cpu, memory=memory, charge=charge,
    )  # fmt: skip
