"""The form for submitting a job: everything is text until the spec has read it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, cast

from django import forms
from django.http import QueryDict
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import FieldError
from frontend.pages.jobs.job_values import FormValues, field_of, read_rest, rest_text
from frontend.texts.labels import JOB_KINDS
from quotas.selectors.pool import Pool
from scheduling.models import PriorityClass

ROLES_MAX: Final = 8
_DIGITS: Final = {"inputmode": "numeric", "autocomplete": "off"}


def _text(label: Any, help_text: Any = "", **attributes: str) -> forms.CharField:
    widget = forms.TextInput(attrs={"autocomplete": "off", **attributes})
    return forms.CharField(label=label, help_text=help_text, required=False, widget=widget)


def _lines(label: Any, help_text: Any) -> forms.CharField:
    widget = forms.Textarea(attrs={"rows": 3})
    return forms.CharField(label=label, help_text=help_text, required=False, widget=widget)


class MainForm(forms.Form):
    """What belongs to the job as a whole."""

    name = _text(gettext_lazy("Name"), gettext_lazy("Lower-case letters, digits, hyphens; made up if empty."))
    kind = forms.ChoiceField(label=gettext_lazy("Kind"), choices=list(JOB_KINDS.items()), required=False)
    queue = forms.ChoiceField(label=gettext_lazy("Queue"), required=False)
    priority_class = forms.ChoiceField(label=gettext_lazy("Priority"), required=False)
    preemptible = forms.BooleanField(
        label=gettext_lazy("May give way to others: only such jobs may borrow"), required=False
    )
    max_run_s = _text(
        gettext_lazy("Longest run time"), gettext_lazy("86400 is a day; empty is no limit."), **_DIGITS
    )
    min_run_s = _text(gettext_lazy("Protected from preemption for"), gettext_lazy("At most 3600."), **_DIGITS)
    checkpoint_interval_s = _text(
        gettext_lazy("Saves a checkpoint every"), gettext_lazy("As far as the program does."), **_DIGITS
    )
    min_available = _text(
        gettext_lazy("Starts with at least"), gettext_lazy("Empty: when every task has its place."), **_DIGITS
    )
    environment = _lines(gettext_lazy("Environment"), gettext_lazy("One NAME=value per line."))
    node_selector = _lines(
        gettext_lazy("Only on nodes with these labels"), gettext_lazy("One label=value per line.")
    )
    run_s = _text(gettext_lazy("Runs for"), **_DIGITS)
    gpu_utilisation = _text(gettext_lazy("Uses of its GPUs"), gettext_lazy("From 0 to 1, as in 0.7."))
    exit_code = _text(gettext_lazy("Ends with exit code"), gettext_lazy("0 is success."), **_DIGITS)
    rest = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(
        self, *, queues: Iterable[str], classes: Iterable[PriorityClass], values: Mapping[str, Any]
    ) -> None:
        # Bound from the start: errors are added from the spec, and typed text always stays.
        super().__init__(dict(values))
        self._offer("queue", [(name, name) for name in queues])
        self._offer("priority_class", [(one.name, f"{one.name} ({one.value})") for one in classes])
        self.full_clean()

    def _offer(self, name: str, choices: list[tuple[str, str]]) -> None:
        """Offer `choices`, and what is typed already, so that a wrong value is shown and not lost."""
        typed = str(self.data.get(name) or "")
        if typed and typed not in dict(choices):
            choices = [*choices, (typed, typed)]
        cast(forms.ChoiceField, self.fields[name]).choices = choices


class RoleForm(forms.Form):
    """One role: how many tasks, and what each of them gets."""

    name = _text(gettext_lazy("Role"))
    replicas = _text(gettext_lazy("Tasks"), **_DIGITS)
    min_replicas = _text(gettext_lazy("At least"), **_DIGITS)
    image = _text(gettext_lazy("Image"), "", placeholder="pytorch/pytorch:2.8")
    command = _text(gettext_lazy("Command"), "", placeholder="python train.py")
    cpu = _text(gettext_lazy("CPU per task"))
    role_memory = _text(gettext_lazy("Memory per task"), gettext_lazy("As in 64Gi or 512Mi."))
    gpu = forms.ChoiceField(label=gettext_lazy("GPU"), required=False)
    cards = _text(gettext_lazy("GPUs per task"), **_DIGITS)
    cores = _text(gettext_lazy("Compute of each"), **_DIGITS)
    memory = _text(gettext_lazy("Memory of each"), gettext_lazy("As in 20Gi, 20480Mi or 50%."))
    profile = _text(gettext_lazy("Profile"), gettext_lazy("As in 1g.10gb."))
    more = forms.CharField(required=False, widget=forms.HiddenInput)

    def __init__(self, *, place: int, pools: Sequence[Pool], values: Mapping[str, Any]) -> None:
        prefix = f"roles-{place}"
        typed = {**values, "more": rest_text(values.get("more") or {})}
        super().__init__({f"{prefix}-{key}": value for key, value in typed.items()}, prefix=prefix)
        gpu = str(values.get("gpu") or "none")
        choices = gpu_choices(pools)
        if gpu not in dict(choices):
            choices.append((gpu, gpu.replace(":", " · ").replace(",", " / ")))
        cast(forms.ChoiceField, self.fields["gpu"]).choices = choices
        self.full_clean()


def gpu_choices(pools: Sequence[Pool]) -> list[tuple[str, str]]:
    """What a role can ask for: nothing, whole cards, or slices, each of any or of one model."""
    choices = [("none", _("no GPU")), ("whole:", _("whole cards, any model"))]
    for pool in pools:
        model, mode = pool.flavor.card_model, pool.flavor.gpu_mode
        words = {
            "whole": _("%(model)s, whole cards"),
            "slice": _("%(model)s, slices"),
            "mig": _("%(model)s, MIG instances"),
        }
        if mode in words:
            choices.append((f"{mode}:{model}", words[mode] % {"model": model}))
    return list(dict(choices).items())


class JobForm:
    """The whole form: the job's own fields and one `RoleForm` per role."""

    def __init__(
        self,
        values: FormValues,
        *,
        queues: Sequence[str],
        classes: Sequence[PriorityClass],
        pools: Sequence[Pool],
    ) -> None:
        main = {**values.main, "rest": rest_text(values.rest)}
        self.main = MainForm(queues=queues, classes=classes, values=main)
        self.roles = [
            RoleForm(place=place, pools=pools, values=role) for place, role in enumerate(values.roles)
        ]
        placement = values.rest.get("placement")
        inner = placement if isinstance(placement, Mapping) else {}
        named = {f"placement.{key}" for key in inner} | {
            key for key in values.rest if key != "placement" or not inner
        }
        self.kept = sorted({*named, *(key for role in values.roles for key in role.get("more") or ())})
        self.other: list[str] = []

    def add_errors(self, errors: Iterable[FieldError]) -> None:
        """Put each mistake beside its field; what has none is listed on top."""
        for error in errors:
            place, name = field_of(error.field)
            form: forms.Form = self.main
            if place is not None and place < len(self.roles):
                form = self.roles[place]
            if name in form.fields:
                form.add_error(name, error.message)
            else:
                self.other.append(f"{error.field}: {error.message}")


def read(data: QueryDict) -> FormValues:
    """The values that were posted."""
    main: dict[str, Any] = {name: data.get(name, "") for name in MainForm.base_fields}
    main["preemptible"] = "preemptible" in data
    rest = read_rest(main.pop("rest"))
    roles: list[dict[str, Any]] = []
    while len(roles) < ROLES_MAX and f"roles-{len(roles)}-replicas" in data:
        prefix = f"roles-{len(roles)}-"
        role: dict[str, Any] = {name: data.get(prefix + name, "") for name in RoleForm.base_fields}
        roles.append(role | {"more": read_rest(role["more"])})
    return FormValues(main, roles or [{}], rest)
