"""Parses the volumes of a job. Folders of the node can't be mounted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils.translation import gettext as _

from clusters.backends.base import SHARED_MEMORY
from clusters.gpu.reserved import plain_path
from scheduling.job_file.parsing.reading import read_field
from scheduling.job_file.values.section import Section
from scheduling.job_file.values.types import RoleSpec


def read_volumes(job: Section, roles: Sequence[RoleSpec]) -> tuple[dict[str, Any], ...]:
    """Return the volumes of a job, each with one source; sizes are Kubernetes quantities."""
    found = read_field(job, "volumes")
    mounts = [plain_path(volume["mount"]) for volume in found if "mount" in volume]
    if len(set(mounts)) < len(mounts):
        job.add_problem("volumes", "DUPLICATE", _("Two volumes have the same mount path."))
    elif SHARED_MEMORY in mounts and any("shared_memory" in role.container for role in roles):
        job.add_problem("volumes", "CONTRADICTION", _("shared_memory is also mounted at /dev/shm."))
    return tuple(found)
