"""The form for submitting a job: all values are text until the parser of job files has read them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final, cast

from django import forms
from django.forms import BoundField
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import FieldError
from foundation.core.sentences import join_sentences
from frontend.pages.submission.job_values import (
    OF_JOB,
    OF_ROLE,
    ROLES_MAX,
    FormValues,
    field_of,
    named_rest,
)
from frontend.pages.submission.list_inputs import HELPS, LABELS
from frontend.texts.labels import JOB_KINDS
from quotas.selectors.pools.pool import WorkspacePool
from scheduling.job_file import FIELDS, Field
from scheduling.job_file.declaration.environment import Variables
from scheduling.job_file.declaration.field import Shown
from scheduling.job_file.values.kinds import ChoiceKind, Flag, LabelsKind, Parts, Percent, Tags, Texts, Whole
from scheduling.models import JobKind, PriorityClass

_OFFERED: Final = ("queue", "priority_class")
"""The fields whose values are chosen among the objects of the workspace."""
_NUMBERS: Final = (Whole, Percent)
SUGGESTED: Final = {"list": "known-tags", "data-several": ""}
"""The attributes of an input of several tags, for which the page suggests the workspace's tags."""


@dataclass(frozen=True, slots=True)
class ShownField:
    """One field of the form; `gpu` is a field of the GPU request, shown for its `modes` only, or for all."""

    bound: BoundField
    unit: str
    is_flag: bool
    gpu: bool
    modes: tuple[str, ...]


class DeclaredForm(forms.Form):
    """A form with an input for each of some declared fields of the job file.

    It is always bound: the parser's errors are added, and entered text is always kept.
    """

    declared: ClassVar[Sequence[Field]] = ()

    def __init__(self, values: Mapping[str, Any], *, prefix: str | None = None) -> None:
        super().__init__(dict(values), prefix=prefix)
        self.fields |= {field.input_name: _input(field) for field in self.declared}

    def group_fields(self) -> dict[str, list[ShownField]]:
        """Return the fields of the form by the groups that it shows."""
        groups: defaultdict[str, list[ShownField]] = defaultdict(list)
        for field in self.declared:
            unit = _translated(field.unit) if field.unit.isalpha() and len(field.unit) > 1 else field.unit
            of_cards = ".gpu." in field.path
            groups[str(field.form)].append(
                ShownField(
                    self[field.input_name], str(unit), isinstance(field.kind, Flag), of_cards, field.only
                )
            )
        return dict(groups)


def _translated(text: str) -> Any:
    return gettext_lazy(text) if text else ""


def _input(field: Field) -> forms.Field:
    """Return the input for a field: all values are text until the parser of job files has read them."""
    said: dict[str, Any] = {"label": _translated(field.label), "required": False}
    match field.kind:
        case Flag():
            return forms.BooleanField(**said)
        case ChoiceKind():
            return forms.ChoiceField(
                choices=[(name, JOB_KINDS.get(name, name)) for name in field.kind.among], **said
            )
        case Parts():
            return _list_input(field)
        case LabelsKind() | Variables():
            lines = (
                _("One label=value per line")
                if isinstance(field.kind, LabelsKind)
                else _("One NAME=value per line")
            )
            return forms.CharField(widget=forms.Textarea(attrs={"rows": 3}), help_text=lines, **said)
        case Tags():
            attributes = {"autocomplete": "off", "placeholder": field.example, **SUGGESTED}
            return forms.CharField(widget=forms.TextInput(attrs=attributes), help_text=_help(field), **said)
        case Texts():  # a program for a shell may have several lines
            text = forms.Textarea(attrs={"rows": 2, "spellcheck": "false", "placeholder": field.example})
            return forms.CharField(widget=text, help_text=_help(field), **said)
    if field.path in _OFFERED:
        return forms.ChoiceField(**said)
    attributes = {"inputmode": "numeric"} if isinstance(field.kind, _NUMBERS) else {}
    attributes |= {"placeholder": field.example} if field.example else {}
    widget = forms.TextInput(attrs={"autocomplete": "off", **attributes})
    return forms.CharField(widget=widget, help_text=_help(field), **said)


def _list_input(field: Field) -> forms.Field:
    """Return the input for a list, whose content `list_inputs` defines."""
    lines = {"rows": 3, "spellcheck": "false", "placeholder": "data:/data:ro"}
    number = {"autocomplete": "off", "inputmode": "numeric"}
    return forms.CharField(
        label=str(LABELS[field.path]),
        help_text=str(HELPS[field.path]),
        required=False,
        widget=forms.Textarea(lines) if field.form == Shown.TEXTS else forms.TextInput(number),
    )


def _help(field: Field) -> str:
    """Return the help of a field with its default value."""
    empty = _("Default: %(otherwise)s.") % {"otherwise": _(field.otherwise)} if field.otherwise else ""
    return join_sentences([_(field.help) if field.help else "", empty])


class MainForm(DeclaredForm):
    """The fields of the job as a whole."""

    declared = OF_JOB

    def __init__(
        self, *, queues: Iterable[str], classes: Iterable[PriorityClass], values: Mapping[str, Any]
    ) -> None:
        super().__init__(values)
        self._offer("kind", [(name, str(JOB_KINDS[name])) for name in JobKind.values])
        self._offer("queue", [(name, name) for name in queues])
        self._offer("priority_class", [(one.name, f"{one.name} ({one.value})") for one in classes])
        self.full_clean()

    def _offer(self, name: str, choices: list[tuple[str, str]]) -> None:
        """Offer `choices` and the entered value: a wrong value is not lost, and an empty one stays empty."""
        typed = str(self.data.get(name) or "")
        if not typed:
            choices = [("", _("Default (%(value)s)") % {"value": FIELDS[name].default}), *choices]
        elif typed not in dict(choices):
            choices = [*choices, (typed, typed)]
        cast(forms.ChoiceField, self.fields[name]).choices = choices


class JobRoleForm(DeclaredForm):
    """One role: the number of its tasks, and the resources of each."""

    declared = OF_ROLE
    gpu = forms.ChoiceField(label=gettext_lazy("GPU"), required=False)

    def __init__(self, *, place: int, pools: Sequence[WorkspacePool], values: Mapping[str, Any]) -> None:
        prefix = f"roles-{place}"
        super().__init__({f"{prefix}-{key}": value for key, value in values.items()}, prefix=prefix)
        gpu = str(values.get("gpu") or "none")
        choices = gpu_choices(pools)
        if gpu not in dict(choices):
            choices.append((gpu, gpu.replace(":", " · ").replace(",", " / ")))
        cast(forms.ChoiceField, self.fields["gpu"]).choices = choices
        self.full_clean()


def gpu_choices(pools: Sequence[WorkspacePool]) -> list[tuple[str, str]]:
    """Return the GPU requests that a role can choose: none, whole GPUs, or slices, of any model or of one."""
    choices = [("none", _("No GPU")), ("whole:", _("Whole GPU, any model"))]
    for pool in pools:
        model, mode = pool.flavor.card_model, pool.flavor.gpu_mode
        words = {
            "whole": _("%(model)s, whole GPU"),
            "slice": _("%(model)s, slice"),
            "mig": _("%(model)s, MIG instances"),
        }
        if mode in words:
            choices.append((f"{mode}:{model}", words[mode] % {"model": model}))
    return list(dict(choices).items())


class JobForm:
    """The whole form: the job's own fields and one `JobRoleForm` per role."""

    def __init__(
        self,
        values: FormValues,
        *,
        queues: Sequence[str],
        classes: Sequence[PriorityClass],
        pools: Sequence[WorkspacePool],
    ) -> None:
        self.main = MainForm(queues=queues, classes=classes, values=values.main)
        self.roles = [
            JobRoleForm(place=place, pools=pools, values=role) for place, role in enumerate(values.roles)
        ]
        of_roles = (name for role in values.roles for name in named_rest(role.get("more") or {}, "roles."))
        self.retained = sorted({*named_rest(values.rest), *of_roles})
        self.other: list[str] = []

    def add_errors(self, errors: Iterable[FieldError]) -> None:
        """Put each error at its field; those without a field are listed on top."""
        for error in errors:
            place, name = field_of(error.field)
            form: forms.Form = self.main
            if place is not None and place < len(self.roles):
                form = self.roles[place]
            if name in form.fields:
                form.add_error(name, error.message)
            else:
                self.other.append(f"{error.field}{_(': ')}{error.message}")


def read_form(data: QueryDict) -> FormValues:
    """Return the submitted values."""
    main = _posted(data, OF_JOB)
    roles: list[dict[str, Any]] = []
    while len(roles) < ROLES_MAX and f"roles-{len(roles)}-replicas" in data:
        prefix = f"roles-{len(roles)}-"
        roles.append(_posted(data, OF_ROLE, prefix) | {"gpu": data.get(f"{prefix}gpu", "")})
    return FormValues(main, roles or [{}])


def one_break(text: str) -> str:
    """Return a text with single line ends: a browser sends each line end as two characters."""
    return text.replace("\r\n", "\n")


def _posted(data: QueryDict, fields: Sequence[Field], prefix: str = "") -> dict[str, Any]:
    return {
        field.input_name: (
            prefix + field.input_name in data
            if isinstance(field.kind, Flag)
            else one_break(data.get(prefix + field.input_name, ""))
        )
        for field in fields
    }
