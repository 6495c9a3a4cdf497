"""The pod and the container of a process, from the path of its cgroup.

Layouts: cgroup v1 and v2, made by systemd or by the kubelet itself, with containerd, CRI-O or Docker, and
nested in a container that is a node (kind). The first pod on the path counts: a container may create any path
below its own cgroup, even one that names another pod, and still belongs to its own pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_LONGEST: Final = 64 * 1024
_POD: Final = re.compile(r"(?:.*-)?pod([0-9a-f]{8}[0-9a-f_-]{23,28})(?:\.slice)?")
_CONTAINER: Final = re.compile(r"(?:[a-z-]+-)?([0-9a-f]{64})(?:\.scope)?")
_KUBELET: Final = "kubepods"
_NAME_LONGEST: Final = 64


@dataclass(frozen=True, slots=True)
class ProcessOwner:
    """The pod in which a process runs; `container_id` is "" for a process of the pod's own cgroup."""

    pod_uid: str
    container_id: str = ""


def parse_owner(text: str) -> ProcessOwner | None:
    """Read the content of a `cgroup` file; None for a process outside of pods."""
    for line in text[:_LONGEST].splitlines():
        path = line.split(":", 2)[-1]
        if path.startswith("/") and (owner := _find_owner(path)) is not None:
            return owner
    return None


def _find_owner(path: str) -> ProcessOwner | None:
    parts = path.split("/")
    # Read from within another cgroup namespace, the path is relative to the reader's cgroup: "/../../pod…".
    inside = parts[1] == ".."
    for part, child in zip(parts, [*parts[1:], ""], strict=True):
        inside = inside or _KUBELET in part
        if inside and (pod := _POD.fullmatch(part)) is not None:
            container = _CONTAINER.fullmatch(child)
            return ProcessOwner(pod[1].replace("_", "-"), container[1] if container else "")
    return None


@dataclass(frozen=True, slots=True)
class ProcessTable:
    """The processes of the node. `root`: the path of its /proc."""

    root: Path

    def find_owner(self, pid: int) -> ProcessOwner | None:
        """Return the pod of a process; None if it has none, or has ended."""
        return parse_owner(self._read(pid, "cgroup"))

    def read_name(self, pid: int) -> str:
        """Return the name that a process chose itself; "" if it has ended."""
        return "".join(_printable(self._read(pid, "comm").strip()[:_NAME_LONGEST]))

    def _read(self, pid: int, name: str) -> str:
        try:
            with (self.root / str(pid) / name).open("rb") as file:
                return file.read(_LONGEST).decode("utf-8", "replace")
        except OSError:  # it ended, or its files are hidden
            return ""


def _printable(text: str) -> Iterator[str]:
    return (letter if letter.isprintable() else "?" for letter in text)
