"""Converts a user's input to a specification, with the defaults of the workspace's policy."""

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
    """A specification, the fields that defaults of the policy filled, and that policy."""

    spec: JobSpec
    filled: Sequence[Filled]
    policy: EffectivePolicy


def job_read(*, acting_user: Actor, workspace: Tenant, body: Any) -> JobReading:
    """Read a job file as in a submission to `workspace`.

    Raises: NotFound, PermissionDenied; Invalid (code SPEC_INVALID) with every error.
    """
    permissions.require_permission(acting_user, Permission.JOB_SUBMIT, workspace)
    return reading_of(body, combine_policies(path_policies(workspace)))


def reading_of(body: Any, policy: EffectivePolicy) -> JobReading:
    """Read a job file with the defaults of a policy.

    Raises: Invalid (code SPEC_INVALID) with every error.
    """
    whole, filled = fill_defaults(body, policy.defaults)
    return JobReading(parse_job(whole), filled, policy)
