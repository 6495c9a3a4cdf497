"""The conversion of a user's input to a specification, with the defaults of the workspace's policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from foundation.core.actor import Actor
from scheduling.job_file import JobSpec, parse_job
from scheduling.policy import EffectivePolicy, Filled, combine_policies, fill_defaults
from scheduling.selectors.policies.workspace_policy import path_policies
from tenants.access import permissions
from tenants.access.permissions import Permission
from tenants.models import Tenant


@dataclass(frozen=True, slots=True)
class JobReading:
    """A specification, the fields that a default of the policy decided, and that policy."""

    spec: JobSpec
    filled: Sequence[Filled]
    policy: EffectivePolicy


def job_read(*, acting_user: Actor, workspace: Tenant, body: Any) -> JobReading:
    """Read a job file as it would be submitted to `workspace`.

    Raises: NotFound, PermissionDenied; Invalid (code SPEC_INVALID) with every mistake.
    """
    permissions.require_permission(acting_user, Permission.JOB_SUBMIT, workspace)
    return reading_of(body, combine_policies(path_policies(workspace)))


def reading_of(body: Any, policy: EffectivePolicy) -> JobReading:
    """Read a job file under a policy.

    Raises: Invalid (code SPEC_INVALID) with every mistake.
    """
    whole, filled = fill_defaults(body, policy.defaults)
    return JobReading(parse_job(whole), filled, policy)
