"""The reason of a pending job as a sentence.

The engine returns a stable code and numbers; no message is parsed. Each code has several sentences
(`frontend.texts.reason_texts`), and the first whose numbers are all present is used: a code without numbers
still gives a complete sentence. Numbers are bold and have their unit if `resource` names what they count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from django.utils.html import escape, format_html
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from foundation.core.quantities import Resource, format_cpu
from foundation.core.reasons import find_reason
from frontend.texts import formats, labels
from frontend.texts.reason_texts import (
    EXPLAINED_ELSEWHERE,
    HELPS,
    ONLY_WITH,
    SENTENCES,
    THEN_PREEMPTS,
    THEN_STARTS,
    THEN_SUFFICES,
    THEN_WAITS,
    THEN_WAITS_OR_PREEMPTS,
    TOLERATE_TAINTS,
    TRIED,
    USUAL_HELP,
    Sentences,
)

_PLACE = re.compile(r"%\((\w+)\)s")
_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_MOMENTS = frozenset({"at", "until", "retry_at", "drained_until", "since"})
_SPANS = frozenset({"age", "window"})
# Names that are separated by commas.
_LISTS = frozenset({"models", "profiles", "clusters", "claims"})
# Plain counts; every other number is an amount of the resource.
_COUNTS = frozenset(
    {
        *(
            "position",
            "waiting",
            "ahead",
            "victims",
            "attempts",
            "nodes",
            "cards",
            "tasks",
            "ahead_cards",
            "together",
        ),
        *("jobs", "pods", "excluded_nodes", "suitable_nodes"),
        *("cards_per_task", "most_free_on_one_node", "free_cards"),
        *("used_hours", "budget_hours", "evictions", "capped"),
        *("preempts", "preempts_borrowers", "moves"),
    }
)

_REFUSED = "refused."

Numbers = Mapping[str, object]


def reason_sentence(code: str, numbers: Numbers | None = None) -> SafeString:
    """Return the sentence of a reason code with its numbers in bold; an unknown code is shown as it is."""
    sentences = (*EXPLAINED_ELSEWHERE, *SENTENCES.get(code, ()))
    sentence = _sentence(sentences, _with_causes(numbers or {}))
    if not sentence:
        return format_html("<code>{}</code>", code)
    return _of_role(sentence, numbers or {})


def name_role(numbers: Numbers, roles: int) -> Numbers:
    """Return the numbers of a job's reason, with the role to name if the job has several."""
    return {"of_role": numbers.get("role", ""), **numbers} if roles > 1 else numbers


def help_sentence(code: str, numbers: Numbers | None = None) -> SafeString:
    """Return a recommendation as a sentence: `code` is a help code, or a reason code for its usual help."""
    given = dict(numbers or {})
    sentences = HELPS.get(code) or USUAL_HELP.get(code, ())
    if "veto" in given:
        sentences = TOLERATE_TAINTS if given["veto"] == "taint" else sentences
        given["rule"] = labels.PLACEMENT_RULES.get(str(given["veto"]))
    sentence = _sentence(sentences, given)
    if sentence:
        sentence = _of_role(sentence, given)
    after = _afterwards(code, numbers or {}) if code in TRIED and numbers else mark_safe("")
    return formats.join_html([sentence, after]) if sentence else sentence


def reason_title(code: str) -> str:
    """Return the short title of a reason, as a tag shows it."""
    return str(labels.state_word("reason", code).text)


def format_compute(points: float) -> str:
    """Return compute in GPUs, for a line that already names the resource: `1 GPU`, `1.50 GPUs`."""
    words = ngettext("%(n)s GPU", "%(n)s GPUs", 1 if points == 100 else 2)
    return words % {"n": formats.format_number(points / 100, 0 if points % 100 == 0 else 2)}


def format_compute_limit(points: float | None) -> str:
    """Return compute in GPUs, where None is unlimited."""
    return formats.format_limit(None) if points is None else format_compute(points)


def format_resource_amount(value: float, resource: str) -> str:
    """Return an amount with its unit: `9 GPUs`, `64 GiB memory`, `compute of 0.3 GPUs`, `8 CPU`."""
    match resource:
        case Resource.GPU_CARDS:
            words = ngettext("%(n)s GPU", "%(n)s GPUs", 1 if value == 1 else 2)
            return words % {"n": formats.format_number(value)}
        case Resource.GPU_CORES:
            digits = 0 if value % 100 == 0 else 2
            words = ngettext("compute of %(n)s GPU", "compute of %(n)s GPUs", 1 if value == 100 else 2)
            return words % {"n": formats.format_number(value / 100, digits)}
        case Resource.GPU_MEMORY:
            return _("%(n)s GPU memory") % {"n": formats.format_memory(value)}
        case Resource.MEMORY:
            return _("%(n)s memory") % {"n": formats.format_memory(value)}
        case Resource.CPU:
            return _("%(n)s CPU") % {"n": format_cpu(int(value))}
    return formats.format_number(value)


def _of_role(sentence: SafeString, numbers: Numbers) -> SafeString:
    """Put the task role before a sentence that does not name it."""
    role = numbers.get("of_role")
    named = format_html("<b>{}</b>", role)
    if not _is_readable(role) or named in sentence:
        return sentence
    words = {"role": named, "advice": sentence}
    return mark_safe(escape(_("Task role %(role)s: %(advice)s")) % words)  # noqa: S308 (both are escaped)


def _afterwards(code: str, numbers: Numbers) -> SafeString:
    """Describe the outcome for a job that follows a recommendation, as far as that was tried."""
    beside = escape(ONLY_WITH) if numbers.get("with") else mark_safe("")
    if numbers.get("also"):
        reason = find_reason(str(numbers["also"]))
        certain = numbers.get("tried") or (reason is not None and not reason.row.may_end_by_preemption)
        then = _sentence(THEN_WAITS if certain else THEN_WAITS_OR_PREEMPTS, numbers)
    elif numbers.get("preempts") or numbers.get("moves"):
        then = _sentence(THEN_PREEMPTS, numbers)
    else:
        starts = THEN_STARTS if numbers.get("tried") else THEN_SUFFICES
        then = escape(starts) if numbers.get("starts") else mark_safe("")
    return formats.join_html([beside, then])


def _with_causes(numbers: Numbers) -> Numbers:
    """Return the numbers, with the reasons why nodes refuse a task as text."""
    found = {
        name.removeprefix(_REFUSED): count
        for name, count in numbers.items()
        if name.startswith(_REFUSED) and isinstance(count, int)
    }
    causes = [
        formats.add_note(labels.VETOES.get(name, name), formats.format_number(count))
        for name, count in sorted(found.items(), key=lambda item: -item[1])
    ]
    return {**numbers, "refused": causes or None}


def _sentence(sentences: Sentences, numbers: Numbers) -> SafeString:
    """Fill in the first sentence whose numbers are all known."""
    for sentence in sentences:
        text = str(sentence)
        names = _PLACE.findall(text)
        if all(_is_readable(numbers.get(name)) for name in names):
            resource = str(numbers.get("resource", ""))
            shown = {name: format_html("<b>{}</b>", _shown(name, numbers[name], resource)) for name in names}
            # Only the catalogue's own text is inserted unescaped; every number was escaped above.
            return mark_safe(escape(text) % shown)  # noqa: S308
    return mark_safe("")


def _is_readable(value: object) -> bool:
    """Return whether a number exists and is not an id without a name."""
    return value not in (None, "") and not (isinstance(value, str) and _ID.fullmatch(value))


def _shown(name: str, value: object, resource: str) -> str:
    """Return one number of a reason as text."""
    if name == "also":
        return reason_title(str(value))
    match value:
        case datetime():
            return formats.clock_html(value)
        case int() | float() if name in _MOMENTS:
            return formats.clock_html(datetime.fromtimestamp(value, UTC))
        case int() | float() if name in _SPANS:
            return formats.format_duration(value)
        case int() | float() if name in _COUNTS:
            return formats.format_number(value)
        case int() | float():
            return format_resource_amount(value, resource)
        case Mapping():
            return _(", ").join(
                formats.add_note(key, _shown(name, part, resource)) for key, part in value.items()
            )
        case list() | tuple():
            return _(", ").join(_shown(name, item, resource) for item in value)
    if name in _LISTS:
        return _(", ").join(part.strip() for part in str(value).split(","))
    return _moment(str(value)) if name in _MOMENTS else str(value)


def _moment(text: str) -> str:
    """Return a time from JSON as text."""
    try:
        return formats.clock_html(datetime.fromisoformat(text))
    except ValueError:
        return text
