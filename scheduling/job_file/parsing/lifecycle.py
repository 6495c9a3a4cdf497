"""Parses the lifecycle rules: actions when tasks fail, are evicted or complete."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from scheduling.job_file.parsing.reading import open_parts, read_part
from scheduling.job_file.values.section import Section

# The actions that an event may have; others would never be taken. A failure may have any action.
_FOLLOWS: Final = {
    "task_evicted": ("restart_job", "fail_job", "abort_job"),
    "task_completed": ("complete_job",),
    "role_completed": ("complete_job",),
}


def read_lifecycle(job: Section, roles: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    """Return the rules in their order: the first that matches an event and is below its limit applies."""
    return tuple(_rule(rule, roles) for rule in open_parts(job, "lifecycle"))


def _rule(rule: Section, roles: tuple[str, ...]) -> dict[str, Any]:
    found = read_part(rule, "lifecycle")
    event, action = found.get("on"), found.get("do")
    allowed = _FOLLOWS.get(event or "", ())
    if allowed and action and action not in allowed:
        message = _("For this event, must be one of: %(choices)s.") % {"choices": ", ".join(allowed)}
        rule.add_problem("do", "CONTRADICTION", message)
    if rule.has_key("role"):
        rule.read_choice("role", roles, default="")
    elif event == "role_completed":
        rule.add_problem("role", "REQUIRED", _("Specify the role."))
    if rule.has_key("exit_codes") and event != "task_failed":
        rule.add_problem("exit_codes", "CONTRADICTION", _("Only failed tasks have an exit code."))
    return found
