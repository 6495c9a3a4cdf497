"""Reading what is to happen when tasks fail, are evicted or complete."""

from __future__ import annotations

from typing import Any, Final

from django.utils.translation import gettext as _

from scheduling.job_file.section import Section

EVENTS: Final = ("task_failed", "task_evicted", "task_completed", "role_completed")
ACTIONS: Final = ("restart_task", "restart_role", "restart_job", "complete_job", "fail_job", "abort_job")
# What may follow what; anything else would be stored and never happen.
_FOLLOWS: Final = {
    "task_failed": ACTIONS,
    "task_evicted": ("restart_job", "fail_job", "abort_job"),
    "task_completed": ("complete_job",),
    "role_completed": ("complete_job",),
}
_ATTEMPTS_MAX: Final = 100


def read_lifecycle(job: Section, roles: tuple[str, ...]) -> tuple[dict[str, Any], ...]:
    """The rules in their order: the first that matches an event, and has not reached its limit, counts."""
    rules = enumerate(job.items("lifecycle", limit=32))
    return tuple(_rule(job, f"lifecycle.{index}", raw, roles) for index, raw in rules)


def _rule(job: Section, path: str, raw: Any, roles: tuple[str, ...]) -> dict[str, Any]:
    rule = Section.read(raw, path, ("on", "do", "exit_codes", "role", "max"), job.problems)
    event, action = rule.choice("on", EVENTS, default=""), rule.choice("do", ACTIONS, default="")
    for key, choices in (("on", EVENTS), ("do", ACTIONS)):
        if not rule.has(key):
            rule.add(key, "REQUIRED", _("must be one of: %(choices)s") % {"choices": ", ".join(choices)})
    if event and action and action not in _FOLLOWS[event]:
        allowed = ", ".join(_FOLLOWS[event])
        message = _("after this event it must be one of: %(choices)s") % {"choices": allowed}
        rule.add("do", "CONTRADICTION", message)
    found: dict[str, Any] = {"on": event, "do": action}
    if rule.has("role"):
        found["role"] = rule.choice("role", roles, default="")
    elif event == "role_completed":
        rule.add("role", "REQUIRED", _("name the role"))
    if rule.has("exit_codes"):
        if event != "task_failed":
            rule.add("exit_codes", "CONTRADICTION", _("only a failed task has an exit code"))
        found["exit_codes"] = _exit_codes(rule)
    if rule.has("max"):
        found["max"] = rule.integer("max", default=1, low=1, high=_ATTEMPTS_MAX)
    return found


def _exit_codes(rule: Section) -> list[int]:
    codes = []
    for index, value in enumerate(rule.items("exit_codes", limit=256)):
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 255:
            rule.add(f"exit_codes.{index}", "RANGE", _("must be a whole number from 0 to 255"))
        else:
            codes.append(value)
    return codes
