"""The form of a new team: its name, one row per person, one per pool, and the settings of its queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from django import forms
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from foundation.core.errors import AllotmentError
from foundation.core.numbers import read_whole
from foundation.core.quantities import QuantityError, parse_cpu
from frontend.components.name_fields import PeopleInput
from frontend.pages.policies.queue_settings_form import PRESETS
from frontend.texts import formats
from frontend.texts.typed import parse_gibibytes
from quotas.distribution.division import Keep
from quotas.selectors.tenants.team import DivisiblePool
from quotas.services.queues.queue_preset import Preset
from quotas.services.team import GPUS_MAX, TeamMember, TeamPlan, TeamPool
from tenants.models import Tenant

PEOPLE_FIRST: Final = 3
PEOPLE_MAX: Final = 50


class TeamForm(forms.Form):
    """The team itself and its queue."""

    name = forms.CharField(label=gettext_lazy("Name"), max_length=120)
    slug = forms.CharField(
        label=gettext_lazy("ID"),
        max_length=63,
        required=False,
        help_text=gettext_lazy("Used in URLs and namespaces. Generated from the name if empty."),
    )
    parent = forms.ChoiceField(
        label=gettext_lazy("Folder"), help_text=gettext_lazy("Quota is taken from this folder.")
    )
    queue = forms.CharField(label=gettext_lazy("Queue"), max_length=63, initial="default")
    preset = forms.ChoiceField(
        label=gettext_lazy("Preset"), choices=[(value, name) for value, (name, _text) in PRESETS.items()]
    )
    invite = forms.BooleanField(
        label=gettext_lazy("Invite users without an account"), required=False, initial=True
    )
    allow_idle = forms.BooleanField(label=gettext_lazy("Create the team anyway"), required=False)
    use_required_attribute = False

    def __init__(self, data: Any = None, *, folders: Sequence[Tenant], **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        field = self.fields["parent"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = [(str(folder.pk), folder.name) for folder in folders]
        if len(folders) > 1:  # folders differ in the quota that can be divided
            field.widget.attrs |= {
                "hx-post": reverse("frontend:ops-team-new"),
                "hx-vals": '{"do": "parent"}',
                "hx-include": "#team-form",
                "hx-select": "#team-pools",
                "hx-target": "#team-pools",
                "hx-swap": "outerHTML",
            }


class PersonForm(forms.Form):
    """One member of the team; an empty row is ignored."""

    username = forms.CharField(
        label=gettext_lazy("Username"), max_length=150, required=False, widget=PeopleInput()
    )
    email = forms.EmailField(
        label=gettext_lazy("Email"),
        required=False,
        widget=forms.EmailInput(attrs={"autocomplete": "off"}),
    )
    role = forms.ChoiceField(label=gettext_lazy("Role"), initial="editor")
    use_required_attribute = False

    def __init__(self, data: Any = None, *, roles: Sequence[tuple[str, str]], **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        field = self.fields["role"]
        assert isinstance(field, forms.ChoiceField)  # noqa: S101
        field.choices = roles

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        if found.get("email") and not found.get("username"):
            self.add_error("username", _("Enter a username."))
        return found


class PoolForm(forms.Form):
    """The team's quota of one pool in whole GPUs; a pool without a number of GPUs is left out."""

    gpus = forms.CharField(label=gettext_lazy("GPUs"), max_length=12, required=False)
    cpu = forms.CharField(label=gettext_lazy("CPU cores"), max_length=20, required=False)
    memory = forms.CharField(label=gettext_lazy("Memory, GiB"), max_length=20, required=False)
    borrowing_limit = forms.CharField(label=gettext_lazy("Borrowing limit"), max_length=20, required=False)
    lending_limit = forms.CharField(label=gettext_lazy("Lending limit"), max_length=20, required=False)
    use_required_attribute = False

    def __init__(self, data: Any = None, *, pool: DivisiblePool, **kwargs: Any) -> None:
        super().__init__(data, **kwargs)
        self.pool = pool
        for name, field in self.fields.items():
            follows = name in ("cpu", "memory")
            field.widget.attrs |= {
                "inputmode": "decimal" if follows else "numeric",
                "autocomplete": "off",
                "placeholder": _("By pool ratio") if follows else "" if name == "gpus" else _("unlimited"),
            }

    @property
    def unassigned_text(self) -> str:
        """The unassigned GPUs of the folder, as text."""
        left = self.pool.unassigned
        if left is None:
            return _("Unlimited quota unassigned, %(gpus)s GPUs in the pool") % {"gpus": self.pool.gpus}
        words = {"left": formats.format_number(left, 1).removesuffix(".0"), "gpus": self.pool.gpus}
        return _("%(left)s GPUs unassigned, %(gpus)s in the pool") % words

    def clean_gpus(self) -> int | None:
        text = self.cleaned_data["gpus"].strip()
        return _whole(text) if text else None

    def clean_cpu(self) -> int | Keep | None:
        return _amount(self.cleaned_data["cpu"], parse_cpu)

    def clean_memory(self) -> int | Keep | None:
        return _amount(self.cleaned_data["memory"], parse_gibibytes)

    def clean_borrowing_limit(self) -> int | None:
        return _limit(self.cleaned_data["borrowing_limit"])

    def clean_lending_limit(self) -> int | None:
        return _limit(self.cleaned_data["lending_limit"])

    def clean(self) -> dict[str, Any]:
        found: dict[str, Any] = super().clean() or {}
        others = any(
            self.data.get(self.add_prefix(name), "").strip() for name in self.fields if name != "gpus"
        )
        if "gpus" in found and found["gpus"] is None and others:
            self.add_error("gpus", _("Enter a number of whole GPUs, for example 8."))
        return found


def _whole(text: str) -> int:
    number = read_whole(text, most=GPUS_MAX)
    if number is None:
        raise forms.ValidationError(_("Enter a number of whole GPUs, for example 8."))
    return number


def _limit(text: str) -> int | None:
    text = text.strip()
    return None if not text or text.lower() in formats.UNLIMITED_WORDS else _whole(text)


def _amount(text: str, parse: Callable[[str], int]) -> int | Keep | None:
    text = text.strip()
    if not text:
        return Keep.AS_IS
    if text.lower() in formats.UNLIMITED_WORDS:
        return None
    try:
        return parse(text)
    except QuantityError as error:
        raise forms.ValidationError(_(error.sentence) % error.values) from error


class TeamForms:
    """All parts of the form: empty with `data` None, else as submitted; without `check`, without errors."""

    def __init__(
        self,
        data: Mapping[str, Any] | None,
        *,
        parent: Tenant,
        folders: Sequence[Tenant],
        roles: Sequence[tuple[str, str]],
        pools: Sequence[DivisiblePool],
        check: bool = True,
    ) -> None:
        self.parent = parent
        self._sent_people: list[PersonForm] = []
        self._sent_pools: list[PoolForm] = []

        def form_arguments(prefix: str = "", **first: Any) -> dict[str, Any]:
            """Return the arguments of one form: its input as data, or as unchecked initial values."""
            if data is None or check:
                return {"data": data, "initial": first, "prefix": prefix or None}
            start = f"{prefix}-" if prefix else ""
            typed = {key.removeprefix(start): value for key, value in data.items() if key.startswith(start)}
            return {"data": None, "initial": {"invite": False, **typed}, "prefix": prefix or None}

        self.team = TeamForm(folders=folders, **form_arguments(parent=str(parent.pk)))
        self.people = [PersonForm(roles=roles, **form_arguments(f"p{at}")) for at in range(_people_of(data))]
        self.pools = [PoolForm(pool=pool, **form_arguments(_prefix(pool))) for pool in pools]

    @property
    def is_empty(self) -> bool:
        """Return whether too little is entered for a check: no name, or no number of GPUs."""
        named = str(self.team.data.get("name", "")).strip()
        return not named or not any(
            str(form.data.get(form.add_prefix("gpus"), "")).strip() for form in self.pools
        )

    def is_valid(self) -> bool:
        """Check every part, so that all errors are shown at once."""
        valid = [form.is_valid() for form in (self.team, *self.people, *self.pools)]
        return all(valid)

    def build_plan(self) -> TeamPlan:
        """Return the requested team; only after `is_valid`."""
        values = self.team.cleaned_data
        # A field that gets an error later loses its value, so the rows are selected now.
        self._sent_people = [form for form in self.people if form.cleaned_data["username"]]
        self._sent_pools = [form for form in self.pools if form.cleaned_data["gpus"] is not None]
        return TeamPlan(
            parent=self.parent,
            name=values["name"],
            slug=values["slug"],
            members=[TeamMember(**form.cleaned_data) for form in self._sent_people],
            pools=[TeamPool(form.pool.flavor, **form.cleaned_data) for form in self._sent_pools],
            queue=values["queue"],
            preset=Preset(values["preset"]),
            invite=values["invite"],
            allow_idle=values["allow_idle"],
        )

    def add_errors(self, error: AllotmentError) -> None:
        """Show the errors of a service at their fields, the rest above the form."""
        if not error.errors:
            self.team.add_error(None, error.detail)
        for wrong in error.errors:
            form, name = self._find_field(wrong.field)
            form.add_error(name if name in form.fields else None, wrong.message)

    def _find_field(self, path: str) -> tuple[forms.Form, str]:
        kind, _dot, rest = path.partition(".")
        place, _dot, name = rest.partition(".")
        rows: Sequence[forms.Form] = ()
        if kind in ("members", "pools"):
            rows = self._sent_people if kind == "members" else self._sent_pools
        at = read_whole(place, most=max(0, len(rows) - 1)) if rows else None
        if at is None:
            return self.team, path
        form = rows[at]
        return form, name if name in form.fields else next(iter(form.fields))


def _prefix(pool: DivisiblePool) -> str:
    # Neither name has a dot.
    return f"pool.{pool.flavor.cluster.name}.{pool.flavor.name}"


def _people_of(data: Mapping[str, Any] | None) -> int:
    number = read_whole(str(data.get("people", "")), most=PEOPLE_MAX) if data is not None else None
    return PEOPLE_FIRST if number is None else number
