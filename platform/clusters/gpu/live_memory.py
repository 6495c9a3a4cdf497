"""The annotations through which the platform and a node's agent agree on the memory of a running pod.

The platform writes a request and the agent an answer. An answer has the token of its request, so that an old
answer is never taken for one to a new request. Before the agent changes anything it records by compare and
swap that it accepted the request: so a client that withdraws a request before that knows that the request
will never be carried out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from clusters.gpu.nvidia import PART_MEMORY_RESOURCE

WANTED: Final = "allotment.io/gpu-memory"
"""The platform's request; only the platform writes it."""
ANSWER: Final = "allotment.io/gpu-memory-answer"
"""The agent's answer; only the agent writes it, and it writes nothing else."""

Amounts = Mapping[str, int]
"""MiB by the uuid of the card."""


class LiveMemoryFormatError(ValueError):
    """An annotation in a format that neither side writes."""


class AnswerState(StrEnum):
    """`taken`: from now on the request may be in effect at any moment. `refused`: nothing was changed."""

    TAKEN = "taken"
    APPLIED = "applied"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class WantedMemory:
    """The wanted memory of a pod's container on each of its cards."""

    token: str
    memory_mib: Amounts

    def to_annotation(self) -> str:
        """Return the annotation's value."""
        return _text({"token": self.token, "memory_mib": dict(sorted(self.memory_mib.items()))})


@dataclass(frozen=True, slots=True)
class MemoryAnswer:
    """The outcome of a resize request. `at_most`: the most that may be in effect now; empty for the initial
    amounts of the pod.
    """

    token: str
    state: AnswerState
    at_most: Amounts = field(default_factory=dict)
    code: str = ""
    message: str = ""

    def to_annotation(self) -> str:
        """Return the annotation's value."""
        fields: dict[str, Any] = {"token": self.token, "state": self.state.value}
        fields["at_most"] = dict(sorted(self.at_most.items()))
        if self.code:
            fields |= {"code": self.code, "message": self.message}
        return _text(fields)


def parse_wanted(text: str) -> WantedMemory:
    """Read a request. Raises: LiveMemoryFormatError."""
    row = _row(WANTED, text)
    amounts = _amounts(WANTED, row.get("memory_mib"))
    if not amounts:
        raise LiveMemoryFormatError(f"{WANTED} names no GPU")
    return WantedMemory(_token(WANTED, row), amounts)


def parse_answer(text: str) -> MemoryAnswer:
    """Read an answer. Raises: LiveMemoryFormatError."""
    row = _row(ANSWER, text)
    try:
        state = AnswerState(str(row.get("state")))
    except ValueError as error:
        raise LiveMemoryFormatError(f"{ANSWER} has the state {row.get('state')!r}") from error
    at_most = _amounts(ANSWER, row.get("at_most", {}))
    code, message = str(row.get("code", ""))[:60], str(row.get("message", ""))[:300]
    return MemoryAnswer(_token(ANSWER, row), state, at_most, code, message)


def in_effect(pod: Mapping[str, Any], cards: Iterable[str]) -> Amounts | None:
    """Return the present memory limit of each of these cards of a pod; None during a change."""
    answer = last_answer(pod)
    if answer is not None and answer.state is AnswerState.TAKEN:
        return None
    began = began_with(pod)
    fields = answer.at_most if answer is not None else {}
    return {uuid: fields.get(uuid, began) for uuid in cards}


def last_answer(pod: Mapping[str, Any]) -> MemoryAnswer | None:
    """Return the agent's last answer; None without one, or if it cannot be read."""
    text = (pod["metadata"].get("annotations") or {}).get(ANSWER)
    try:
        return parse_answer(text) if text else None
    except LiveMemoryFormatError:
        return None


def began_with(pod: Mapping[str, Any]) -> int:
    """Return the MiB of each card at the pod's creation; 0 for a pod without parts of cards."""
    limits = (pod["spec"]["containers"][0].get("resources") or {}).get("limits") or {}
    text = str(limits.get(PART_MEMORY_RESOURCE, "0"))
    return int(text) if text.isascii() and text.isdigit() else 0


def _text(fields: Mapping[str, Any]) -> str:
    return json.dumps(fields, separators=(",", ":"))


def _row(key: str, text: str) -> dict[str, Any]:
    try:
        row = json.loads(text)
    except ValueError as error:
        raise LiveMemoryFormatError(f"{key} is not JSON: {error}") from error
    if not isinstance(row, dict):
        raise LiveMemoryFormatError(f"{key} is not an object")
    return row


def _token(key: str, row: Mapping[str, Any]) -> str:
    token = row.get("token")
    if not isinstance(token, str) or not token:
        raise LiveMemoryFormatError(f"{key} has no token")
    return token


def _amounts(key: str, value: Any) -> dict[str, int]:
    if not isinstance(value, dict):
        raise LiveMemoryFormatError(f"{key} has no amounts by GPU")
    for uuid, mib in value.items():
        if isinstance(mib, bool) or not isinstance(mib, int) or mib < 1:
            raise LiveMemoryFormatError(f"{key} wants {mib!r} of {uuid}, which is no number of MiB")
    return dict(value)
