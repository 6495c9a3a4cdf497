"""Reading how the containers of a role are run, and what they have in common within a job."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from foundation.core.quantities import parse_cpu
from scheduling.job_file.environment import read_environment_from
from scheduling.job_file.memory import read_memory
from scheduling.job_file.names import read_name
from scheduling.job_file.probes import read_pre_stop, read_probes
from scheduling.job_file.section import Section

ROLE_KEYS: Final = ("args", "working_directory", "image_pull_policy", "probes", "pre_stop")
JOB_KEYS: Final = ("environment_from", "image_pull_secrets", "security", "termination_grace_s")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
GRACE_MAX_S: Final = 300
"""As long as a preemptor's claim lives; whoever left later would leave for nobody."""
CPU_MAX: Final = 100_000_000
"""Millicores; no node has as much."""
MEMORY_MAX: Final = 1 << 30
"""MiB; no node has as much."""
_ID_MAX: Final = 2**31 - 1


def read_container(role: Section) -> dict[str, Any]:
    """What a role says of its containers beyond image and command; only what it says."""
    found: dict[str, Any] = {
        "args": list(role.texts("args", limit=256)),
        "working_directory": _folder(role),
        "image_pull_policy": role.choice("image_pull_policy", PULL_POLICIES, default=""),
        "probes": read_probes(role),
        "pre_stop": read_pre_stop(role),
    }
    return {key: value for key, value in found.items() if value}


def read_limits(resources: Section, cpu_millicores: int, memory_mib: int) -> dict[str, str]:
    """How far a task may go beyond what it asks for: as Kubernetes writes them, only what is said."""
    limits = resources.section("limits", ("cpu", "memory"))
    found = {}
    for key, parse, asked, unit, most in (
        ("cpu", parse_cpu, cpu_millicores, "m", CPU_MAX),
        ("memory", read_memory, memory_mib, "Mi", MEMORY_MAX),
    ):
        if limits.has(key):
            before = len(limits.problems.errors)
            amount = int(limits.quantity(key, parse, asked))
            if amount > most:
                limits.add(key, "RANGE", _("is more than any node could have"))
            elif len(limits.problems.errors) == before and (amount < asked or amount == 0):
                limits.add(key, "RANGE", _("must not be less than what is asked for"))
            found[key] = f"{amount}{unit}"
    return found


def read_exclusive(resources: Section, cpu_millicores: int, memory_mib: int, limits: Any) -> bool:
    """Whether a task wants whole CPUs for itself alone.

    A node whose kubelet has the static CPU manager gives them to guaranteed pods that ask for whole ones.
    """
    if not resources.flag("exclusive_cpus", default=False):
        return False
    if cpu_millicores % 1000 or not cpu_millicores or not memory_mib or limits:
        message = _("ask for whole CPUs and for memory, and for no limits beyond them")
        resources.add("exclusive_cpus", "CONTRADICTION", message)
    return True


def read_runtime(job: Section) -> dict[str, Any]:
    """What a job says of all its pods; only what it says."""
    found: dict[str, Any] = {
        "environment_from": read_environment_from(job),
        "image_pull_secrets": _pull_secrets(job),
        "security": _security(job),
    }
    found = {key: value for key, value in found.items() if value}
    if job.has("termination_grace_s"):
        found["termination_grace_s"] = job.integer("termination_grace_s", default=30, high=GRACE_MAX_S)
    return found


def _folder(role: Section) -> str:
    folder = role.text("working_directory", limit=1024)
    if folder and not folder.startswith("/"):
        role.add("working_directory", "FORMAT", _("must be an absolute path, as in /data"))
    return folder


def _pull_secrets(job: Section) -> list[str]:
    raw = job.items("image_pull_secrets", limit=8)
    parts = [
        Section({"name": name}, f"image_pull_secrets.{index}", job.problems) for index, name in enumerate(raw)
    ]
    return [read_name(part, "name") for part in parts]


def _security(job: Section) -> dict[str, int]:
    """User and group ids. Root is none of them: the namespaces of workspaces do not let it in."""
    part = job.section("security", ("run_as_user", "run_as_group", "fs_group"))
    found = {key: part.optional_integer(key, low=1, high=_ID_MAX) for key in ("run_as_user", "run_as_group")}
    found["fs_group"] = part.optional_integer("fs_group", low=1, high=_ID_MAX)
    return {key: value for key, value in found.items() if value is not None}
