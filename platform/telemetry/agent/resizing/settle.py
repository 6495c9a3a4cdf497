"""Carries out the resize request of one pod.

Nothing is stored between two calls: the request and the last answer are on the pod, the limits in the
container's file. So a call may be repeated, late, or made by the next agent after this one was killed.

A refusal is final only if nothing was changed. After `taken` the request is retried until it is in effect,
because a refusal states that nothing was changed, which may no longer be true.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Final, Protocol

from clusters.gpu.live_memory import (
    ANSWER,
    WANTED,
    AnswerState,
    LiveMemoryFormatError,
    MemoryAnswer,
    WantedMemory,
    began_with,
    last_answer,
    parse_wanted,
)
from telemetry.agent.api import Pod
from telemetry.agent.regions import (
    MIB,
    Absent,
    NotReady,
    Region,
    Unusable,
    folder_of,
    read_regions,
    write_limits,
)

log = logging.getLogger(__name__)
_UNKNOWN_LAYOUT: Final = "UNKNOWN_LAYOUT"
_NO_REGION: Final = "NOT_IN_USE"
_BELOW_USE: Final = "BELOW_USE"


class PodAnnotator(Protocol):
    """The cluster's pods, with the operations that the agent may use."""

    def annotate_pod(self, pod: Pod, annotations: Mapping[str, str]) -> Pod:
        """Write annotations on the pod exactly as it was read. Raises: Changed."""


class _Refusal(Exception):
    """The reason for which a request is not carried out."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message


def settle_pod(pods: PodAnnotator, root: Path, pod: Pod) -> bool:
    """Carry out the request of a pod; return whether nothing is left to do for now.

    Raises: Changed, and all other errors of `annotate_pod`.
    """
    wanted = _wanted(pod)
    if wanted is None:
        return True
    answer = last_answer(pod)
    said = answer.state if answer is not None and answer.token == wanted.token else None
    if said is AnswerState.REFUSED:
        return True
    try:
        folder = _folder(root, pod)
        if said is AnswerState.APPLIED:
            _keep(folder, wanted, pod)
            return True
        if said is None:
            pod = _take(pods, folder, pod, wanted)
    except NotReady as error:
        log.info("%s: %s", _name(pod), error)
        return False
    except _Refusal as refusal:
        _refuse(pods, pod, wanted, refusal)
        return True
    return _apply(pods, folder, pod, wanted)


def _wanted(pod: Pod) -> WantedMemory | None:
    text = (pod["metadata"].get("annotations") or {}).get(WANTED)
    if text is None or not _runs(pod):
        return None
    try:
        return parse_wanted(text)
    except LiveMemoryFormatError as error:
        log.warning("%s: %s", _name(pod), error)
        return None


def _take(pods: PodAnnotator, folder: Path, pod: Pod, wanted: WantedMemory) -> Pod:
    """Answer that the request is taken, if it can be carried out. Raises: _Refusal, NotReady; Changed."""
    try:
        _check(folder, wanted)
    except Unusable as error:
        raise _Refusal(_UNKNOWN_LAYOUT, str(error)) from error
    return pods.annotate_pod(pod, {ANSWER: _taken(pod, wanted).to_annotation()})


def _apply(pods: PodAnnotator, folder: Path, pod: Pod, wanted: WantedMemory) -> bool:
    try:
        write_limits(folder, wanted.memory_mib)
    except (Absent, NotReady, Unusable) as error:
        log.warning("%s: not settled yet: %s", _name(pod), error)
        return False
    pods.annotate_pod(
        pod, {ANSWER: MemoryAnswer(wanted.token, AnswerState.APPLIED, wanted.memory_mib).to_annotation()}
    )
    log.info("%s: memory set to %s", _name(pod), _amounts(wanted.memory_mib))
    return True


def _check(folder: Path, wanted: WantedMemory) -> None:
    """Check whether a change can be made, before it is begun. Raises: _Refusal, NotReady, Unusable."""
    try:
        regions = read_regions(folder)
    except Absent as error:
        text = "no process of the container has used its card yet, so there is no limit to change"
        raise _Refusal(_NO_REGION, text) from error
    for region in regions:
        if missing := sorted(wanted.memory_mib.keys() - region.limits.keys()):
            raise Unusable(f"{region.name} has no GPU {missing[0]}")
        _check_use(region, wanted)


def _check_use(region: Region, wanted: WantedMemory) -> None:
    for uuid, mib in sorted(wanted.memory_mib.items()):
        lowered = region.limits[uuid] == 0 or mib * MIB < region.limits[uuid]
        used_mib = -(-region.used[uuid] // MIB)
        if lowered and used_mib > mib:
            raise _Refusal(
                _BELOW_USE, f"its processes use {used_mib} MiB of {uuid}; {mib} MiB were asked for"
            )


def _keep(folder: Path, wanted: WantedMemory, pod: Pod) -> None:
    """Apply amounts in effect again: a container that restarted may have made a new file."""
    try:
        regions = read_regions(folder)
        if any(r.limits.get(uuid) != mib * MIB for r in regions for uuid, mib in wanted.memory_mib.items()):
            write_limits(folder, wanted.memory_mib)
            log.info("%s: memory set again to %s", _name(pod), _amounts(wanted.memory_mib))
    except (Absent, NotReady, Unusable) as error:
        log.info("%s: %s", _name(pod), error)


def _folder(root: Path, pod: Pod) -> Path:
    try:
        return folder_of(root, pod["metadata"]["uid"], pod["spec"]["containers"][0]["name"])
    except Unusable as error:
        raise _Refusal(_UNKNOWN_LAYOUT, str(error)) from error


def _taken(pod: Pod, wanted: WantedMemory) -> MemoryAnswer:
    most = _at_most(pod, wanted)
    amounts = {uuid: max(mib, most[uuid]) for uuid, mib in wanted.memory_mib.items()}
    return MemoryAnswer(wanted.token, AnswerState.TAKEN, amounts)


def _at_most(pod: Pod, wanted: WantedMemory) -> dict[str, int]:
    """Return the most that may be in effect of these cards, including an earlier request that is not
    finished.
    """
    answer, began = last_answer(pod), began_with(pod)
    reported = answer.at_most if answer is not None else {}
    return {uuid: reported.get(uuid, began) for uuid in wanted.memory_mib}


def _refuse(pods: PodAnnotator, pod: Pod, wanted: WantedMemory, refusal: _Refusal) -> None:
    log.warning("%s: refused %s: %s", _name(pod), _amounts(wanted.memory_mib), refusal.message)
    # Amounts below 1 MiB cannot be reported: for a pod created without a part of a card nothing is in effect.
    most = {uuid: mib for uuid, mib in _at_most(pod, wanted).items() if mib}
    answer = MemoryAnswer(wanted.token, AnswerState.REFUSED, most, refusal.code, refusal.message[:300])
    pods.annotate_pod(pod, {ANSWER: answer.to_annotation()})


def _runs(pod: Pod) -> bool:
    ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
    return not ended and bool(pod["spec"].get("containers"))


def _name(pod: Pod) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"


def _amounts(memory_mib: Mapping[str, int]) -> str:
    return ", ".join(f"{mib} MiB of {uuid}" for uuid, mib in sorted(memory_mib.items()))
