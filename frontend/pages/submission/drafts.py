"""The draft of a job: its YAML, and the inputs of the form beside it.

The form contains the YAML that it shows. A submitted form is read as that YAML with the changed fields, so
that comments, order, and fields that the form does not show are kept.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from django.http import QueryDict
from django.utils.translation import gettext as _

from foundation.core.bounded_parsing import TextError
from foundation.core.errors import AllotmentError, FieldError, Invalid
from foundation.core.identifiers import new_id
from foundation.core.numbers import read_whole
from foundation.core.yaml_edit import change_yaml
from frontend.pages.jobs.detail.spec_text import spec_text
from frontend.pages.jobs.pending.advice import apply_changes
from frontend.pages.submission.job_form import one_break, read_form
from frontend.pages.submission.job_values import (
    ROLES_MAX,
    FormValues,
    carry_changes,
    check_shown,
    line_errors,
    to_form,
    to_mapping,
)
from frontend.pages.submission.preview_helps import CHANGE
from scheduling.job_file import JOB_BOUNDS, find_lines, load_text

FIRST_ROLE: Final = {
    "name": "main", "replicas": 1, "cpu": 8, "role_memory": "32Gi", "gpu": "whole:", "cards": 1, "cores": 30,
    "memory": "30%",
}  # fmt: skip


@dataclass(slots=True)
class JobDraft:
    """The input so far: YAML if `tab` says so, otherwise in the form that shows `text`."""

    values: FormValues
    text: str
    tab: str = "form"
    error: AllotmentError | None = None
    errors: tuple[FieldError, ...] = ()

    def read_body(self) -> Mapping[str, Any]:
        """Return the job file. Raises: Invalid for text that is not YAML."""
        source = load_text(self.text)
        return source if self.tab == "yaml" else carry_changes(source, self.values)

    def line_errors(self) -> list[FieldError]:
        """Return the lines of the form that the job file cannot contain."""
        return [] if self.tab == "yaml" else line_errors(self.values)

    def add_error(self, error: AllotmentError) -> None:
        """Show an error at the input."""
        self.error, self.errors = error, error.errors


def draft_of(values: FormValues) -> JobDraft:
    """Return a draft in the form."""
    return JobDraft(values, spec_text(to_mapping(values)))


def draft_of_text(text: str) -> JobDraft:
    """Return a draft of a YAML text, in the form unless the form cannot show it."""
    draft = JobDraft(FormValues({}, [{}]), text, "yaml")
    _show_form(draft)
    draft.error, draft.errors = None, ()
    return draft


def unused_name(name: str) -> str:
    """Return a new name derived from another one: names are unique among live jobs."""
    return f"{name[:58].rstrip('-')}-{new_id().hex[-4:]}"


def rename_job(text: str, name: str) -> str:
    """Return the YAML with another name; unchanged if its layout does not allow the change."""
    try:
        return change_yaml(text, {**load_text(text), "name": name}, JOB_BOUNDS)
    except TextError:
        return text


def read_draft(data: QueryDict) -> JobDraft:
    """Return the submitted draft."""
    if data.get("tab") == "yaml":
        return JobDraft(FormValues({}, [{}]), one_break(data.get("yaml", "")), "yaml")
    values, source = read_form(data), one_break(data.get("source", ""))
    return JobDraft(values, source) if source else draft_of(values)


def edit_draft(draft: JobDraft, action: str) -> None:
    """Change the draft without submitting it; parts that cannot be converted stay, with the reason."""
    try:
        if action.startswith(CHANGE):
            _apply_help(draft, action.removeprefix(CHANGE))
        elif draft.tab == "yaml":
            if action == "to-form":
                _show_form(draft)
        elif action == "to-yaml":
            _show_yaml(draft)
        elif action == "add-role" or action.startswith("remove-role-"):
            _change_roles(draft, action)
    except Invalid as error:
        draft.add_error(error)


def add_lines(text: str, errors: Sequence[FieldError]) -> list[FieldError]:
    """Return the errors of a YAML text, each with its line before the message if it is known."""
    found, lines = [], find_lines(text, [error.field for error in errors])
    for error, line in zip(errors, lines, strict=True):
        words = {"line": line, "message": error.message}
        message = _("Line %(line)s: %(message)s") % words if line else error.message
        found.append(replace(error, message=message))
    return found


def invalid_lines(errors: list[FieldError]) -> Invalid:
    """Return the error for invalid lines of the form."""
    return Invalid(_("Correct the fields marked below."), code="SPEC_INVALID", errors=errors)


def _show_form(draft: JobDraft) -> None:
    try:
        body = load_text(draft.text)
        check_shown(body)
    except Invalid as error:
        draft.add_error(error)
        return
    draft.tab, draft.values = "form", to_form(body)


def _show_yaml(draft: JobDraft) -> None:
    if wrong := draft.line_errors():
        raise invalid_lines(wrong)
    draft.text = _changed(draft.text, draft.read_body())
    draft.tab = "yaml"


def _apply_help(draft: JobDraft, text: str) -> None:
    if wrong := draft.line_errors():
        raise invalid_lines(wrong)
    draft.text = _changed(draft.text, apply_changes(draft.read_body(), text))
    if draft.tab == "form":
        _show_form(draft)


def _changed(text: str, body: Mapping[str, Any]) -> str:
    try:
        return change_yaml(text, body, JOB_BOUNDS)
    except TextError as error:
        message = _("The layout of the YAML doesn't allow this change. Undo it, then edit the YAML.")
        raise Invalid(message, code="YAML_INVALID") from error


def _change_roles(draft: JobDraft, action: str) -> None:
    source = load_text(draft.text)
    check_shown(source)
    written = [*(source.get("roles") or [{}])]
    roles = draft.values.roles
    if action == "add-role" and len(roles) < ROLES_MAX:
        added = {**FIRST_ROLE, "name": f"role-{len(roles) + 1}"}
        written.append(to_mapping(FormValues({}, [added]))["roles"][0])
        roles.append(added)
    elif len(roles) > 1:
        place = read_whole(action.removeprefix("remove-role-"), most=len(roles) - 1)
        if place is None or place >= len(written):
            return
        roles.pop(place)
        written.pop(place)
    draft.text = _changed(draft.text, {**source, "roles": written})
