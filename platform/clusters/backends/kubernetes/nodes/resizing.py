"""Another memory for parts of cards in use, by way of the agent on the pod's node.

The wish stands on the pod, and so does the agent's answer; nothing is remembered here. HAMi's own books,
`vgpu-devices-allocated`, are raised together with the wish and lowered after the agent's answer, so whoever
adds them up never finds less on a card than may be in use.

A wish that no agent has taken yet is taken back by writing the old amounts over it, by compare and swap. An
agent says that it takes a wish by compare and swap as well, so one of the two has to look again.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from clusters.backends.base import BackendUnavailable, DeviceGrant, PodOutcome, TaskRef
from clusters.backends.kubernetes.client.api import Denied, Json, KubernetesApi, RequestRefused
from clusters.backends.kubernetes.nodes import shares
from clusters.backends.kubernetes.pods import pods
from clusters.gpu import hami
from clusters.gpu.hami import CardShare
from clusters.gpu.live_memory import (
    WANTED,
    Amounts,
    AnswerState,
    LiveMemoryFormatError,
    WantedMemory,
    began_with,
    in_effect,
    last_answer,
    parse_wanted,
)
from foundation.core import faults

_NOT_FOUND, _CONFLICT = 404, 409


def resize_devices(api: KubernetesApi, ref: TaskRef, devices: Sequence[DeviceGrant]) -> PodOutcome:
    """Have a pod's cards limited to these amounts; done when that holds, and nothing else is under way."""
    ended = PodOutcome.of_refusal("POD_GONE", f"pod {ref.namespace}/{ref.name} has ended")
    pod: Json | None = None
    try:
        pod = api.get(pods.pod_path(ref.namespace, ref.name))
        if ref.uid not in ("", pod["metadata"]["uid"]) or pods.has_ended(pod):
            return ended
        return _step(api, pod, {grant.uuid: grant.memory_mib for grant in devices})
    except shares.NoRoom as error:
        return PodOutcome.of_refusal("CARD_FULL", str(error))
    except (hami.HamiFormatError, LiveMemoryFormatError) as error:
        return PodOutcome.of_refusal("CARDS_UNREADABLE", str(error))
    except Denied as error:
        return PodOutcome.of_unknown(str(error))
    except RequestRefused as error:
        if error.status == _NOT_FOUND:
            return ended
        if pod is None or error.status == _CONFLICT or WANTED in _annotations(pod):
            return PodOutcome.of_unknown(str(error))  # what was asked for before may still be carried out
        return PodOutcome.of_refusal(error.reason or f"HTTP_{error.status}", error.message)
    except BackendUnavailable as error:
        return PodOutcome.of_unknown(str(error))


def _step(api: KubernetesApi, pod: Json, target: Amounts) -> PodOutcome:
    held = _held(pod)
    if missing := sorted(target.keys() - held.keys()):
        return PodOutcome.of_refusal("NOT_ITS_CARD", f"the pod holds no slice of GPU {missing[0]}")
    wish, there = _wish(pod), in_effect(pod, target) == target
    if wish is not None and wish.memory_mib == target:
        return _follow(api, pod, wish, there=there)
    if not there:
        return _ask(api, pod, target)
    if wish is not None:  # nobody took what is wanted now, and from here on nobody can
        _write(api, pod, target, allocated=target)
    return PodOutcome.of_success(str(pod["metadata"]["uid"]))


def _follow(api: KubernetesApi, pod: Json, wish: WantedMemory, *, there: bool) -> PodOutcome:
    """Return the outcome of a resize request. `there`: what it asks for was in effect before."""
    answer, target, done = (
        last_answer(pod),
        wish.memory_mib,
        PodOutcome.of_success(str(pod["metadata"]["uid"])),
    )
    if answer is None or answer.token != wish.token:
        return done if there else PodOutcome.of_unknown("the agent of its node has not answered")
    if answer.state is AnswerState.TAKEN:
        return PodOutcome.of_unknown("the agent of its node is about to change it")
    if answer.state is AnswerState.REFUSED:
        # It must not be tried later: the pod is to keep what it has.
        now = in_effect(pod, target) or target
        _write(api, pod, now, allocated=now)
        return PodOutcome.of_refusal(answer.code or "REFUSED", answer.message)
    held = _held(pod)
    if any(held[card].memory_mib != mib for card, mib in target.items()):
        _write(api, pod, None, allocated=target)
    return done


def _ask(api: KubernetesApi, pod: Json, target: Amounts) -> PodOutcome:
    """Write the wish; what more of a card is wanted is booked at once. Raises: NoRoom, Refused."""
    held = _held(pod)
    most = {card: max(mib, held[card].memory_mib) for card, mib in target.items()}
    grown = [card for card, mib in most.items() if mib > held[card].memory_mib]
    if grown:
        shares.check_room(api, pod, [DeviceGrant(card, held[card].cores, most[card]) for card in grown])
    _write(api, pod, target, allocated=most)
    faults.fault_point("kubernetes.after_resize")
    return PodOutcome.of_unknown("asked of the agent of its node")


def _write(api: KubernetesApi, pod: Json, wanted: Amounts | None, *, allocated: Amounts) -> None:
    """Write the wish, and HAMi's books, on exactly this pod as it was read. Raises: Refused."""
    metadata = pod["metadata"]
    annotations: dict[str, Any] = {hami.ALLOCATED: _records(pod, allocated)}
    if wanted is not None:
        # What the pod began with needs no wish: its container starts that way.
        began = all(mib == began_with(pod) for mib in wanted.values()) and last_answer(pod) is None
        annotations[WANTED] = None if began else WantedMemory(uuid.uuid4().hex, wanted).to_annotation()
    known = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    path = pods.pod_path(metadata["namespace"], metadata["name"])
    api.patch(path, {"metadata": {**known, "annotations": annotations}})


def _wish(pod: Json) -> WantedMemory | None:
    text = _annotations(pod).get(WANTED)
    return parse_wanted(text) if text else None


def _held(pod: Json) -> dict[str, CardShare]:
    """Return HAMi's record of the pod, by card."""
    containers = hami.decode_shares(_annotations(pod).get(hami.ALLOCATED, ""))
    return {share.uuid: share for container in containers for share in container}


def _records(pod: Json, memory_mib: Amounts) -> str:
    """HAMi's books of the pod with other amounts, everything else in them as it is."""
    containers = hami.decode_shares(_annotations(pod).get(hami.ALLOCATED, ""))
    return hami.encode_shares(
        [
            [CardShare(s.uuid, memory_mib.get(s.uuid, s.memory_mib), s.cores) for s in container]
            for container in containers
        ]
    )


def _annotations(pod: Json) -> Mapping[str, str]:
    found: Mapping[str, str] = pod["metadata"].get("annotations") or {}
    return found
