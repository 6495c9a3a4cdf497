"""Recommendations as users read them: one for each alternative.

The engine names each missing resource separately, and each of several changes that only help together. One of
them is useless without the others, so changes that belong together are one recommendation here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import unescape
from typing import Any, Final

from django.utils.html import strip_tags
from django.utils.safestring import SafeString

from foundation.core.quantities import Resource
from frontend.texts import formats, reasons

Item = Mapping[str, Any]

_AFTERWARDS: Final = ("with", "also", "starts", "tried", "preempts", "preempts_borrowers", "moves")
OF_AMOUNTS: Final = frozenset({"RAISE_QUOTA", "WAIT_FOR_RELEASE"})
"""The codes of recommendations that name missing amounts of a pool."""


@dataclass(frozen=True, slots=True)
class Recommendation:
    """One alternative. `items` are the engine's findings about it, `sentence` is the text for users."""

    code: str
    items: Sequence[Item]
    sentence: SafeString

    @property
    def flavor(self) -> str:
        """The name of the pool of the recommendation; empty without one."""
        return str(numbers_of(self.items[0]).get("flavor", ""))


def find_recommendations(found: Iterable[Any]) -> list[Recommendation]:
    """Return the recommendations of a job, in the engine's order; those without a sentence are left out."""
    items = [item for item in found if isinstance(item, Mapping)]
    made: list[Recommendation] = []
    seen: set[int] = set()
    for place, item in enumerate(items):
        if place in seen:
            continue
        places = [place, *(other for other in range(place + 1, len(items)) if _together(item, items[other]))]
        seen.update(places)
        group = [items[each] for each in places]
        code = str(item.get("code", ""))
        sentence = _sentence(code, group)
        if sentence:
            made.append(Recommendation(code, group, sentence))
    return made


def asks_for_quota(found: Recommendation, all_found: Iterable[Recommendation]) -> bool:
    """Return whether a quota request fulfils the recommendation.

    That is so for more quota, and for the wait for missing amounts of a pool, if no other recommendation of
    the pool is more quota.
    """
    if found.code == "RAISE_QUOTA":
        return True
    raised = {each.flavor for each in all_found if each.code == "RAISE_QUOTA"}
    return found.code in OF_AMOUNTS and found.flavor not in raised and bool(shorts_of(found.items))


def recommendation_sentences(
    code: str, numbers: reasons.Numbers | None, found: Iterable[Any]
) -> list[SafeString]:
    """Return recommendations for a job that waits for `code`: the engine's, or else the usual ones."""
    sentences = [each.sentence for each in find_recommendations(found)]
    return [text for text in sentences or [reasons.help_sentence(code, numbers)] if text]


def plain_recommendations(code: str, numbers: reasons.Numbers | None, found: Iterable[Any]) -> list[str]:
    """Return recommendations as `recommendation_sentences`, as plain text."""
    return [unescape(strip_tags(text)) for text in recommendation_sentences(code, numbers, found)]


def numbers_of(item: Item) -> Item:
    """Return the numbers of a recommendation; empty if none were stored."""
    numbers = item.get("numbers")
    return numbers if isinstance(numbers, Mapping) else {}


def names_in(value: object) -> list[str]:
    """Return the names in a text that lists several, separated by commas."""
    return [name for part in str(value or "").split(",") if (name := part.strip())]


def shorts_of(items: Iterable[Item]) -> dict[Resource, int]:
    """Return the shortage of each resource, in its own unit."""
    known = {resource.value for resource in Resource}
    return {
        Resource(numbers["resource"]): int(numbers["short"])
        for numbers in map(numbers_of, items)
        if numbers.get("resource") in known and isinstance(numbers.get("short"), int)
    }


def amount_words(amounts: Mapping[Resource, int]) -> list[str]:
    """Return amounts of several resources with their units, without the compute that whole GPUs imply."""
    whole = amounts.get(Resource.GPU_CORES) == 100 * amounts.get(Resource.GPU_CARDS, -1)
    return [
        reasons.format_resource_amount(amount, resource)
        for resource, amount in amounts.items()
        if not (whole and resource is Resource.GPU_CORES)
    ]


def _together(item: Item, other: Item) -> bool:
    """Return whether two recommendations belong together: resources of one pool, or changes of a job."""
    code, numbers, others = str(item.get("code")), numbers_of(item), numbers_of(other)
    names = names_in(numbers.get("with"))
    if code in OF_AMOUNTS:
        same = other.get("code") == code and others.get("flavor") == numbers.get("flavor")
        return same and others.get("resource") in names
    return str(other.get("code")) in names and bool(names_in(others.get("with")))


def _sentence(code: str, group: Sequence[Item]) -> SafeString:
    if code in OF_AMOUNTS or len(group) == 1:
        return reasons.help_sentence(code, _numbers_of_all(group))
    said = {str(item.get("code")) for item in group}
    *changes, last = (
        (str(item.get("code")), {key: n for key, n in numbers_of(item).items() if key not in _AFTERWARDS})
        for item in group
    )
    numbers = dict(numbers_of(group[0]))
    numbers["with"] = ",".join(name for name in names_in(numbers.get("with")) if name not in said)
    # The outcome for the job is described once, after the last change.
    then = {key: numbers[key] for key in _AFTERWARDS if key in numbers}
    parts = [reasons.help_sentence(*change) for change in changes]
    return formats.join_html([*parts, reasons.help_sentence(last[0], last[1] | then)])


def _numbers_of_all(group: Sequence[Item]) -> dict[str, object]:
    """Return the numbers of the first, with the amounts of all and with what is still needed in addition."""
    numbers = dict(numbers_of(group[0]))
    shorts = shorts_of(group)
    if len(group) == 1 or len(shorts) != len(group):
        return numbers
    said = {numbers_of(item).get("resource") for item in group}
    numbers["short"] = amount_words(shorts)
    numbers["with"] = ",".join(name for name in names_in(numbers.get("with")) if name not in said)
    return numbers
