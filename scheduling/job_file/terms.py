"""Reading conditions on labels: expressions, and terms that speak of other tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.utils.translation import gettext as _

from clusters.gpu.reserved import is_reserved_label
from scheduling.engine.model import AffinityOperator
from scheduling.job_file.levels import LEVELS
from scheduling.job_file.section import Section

WEIGHT_MAX: Final = 100
_TERMS_MAX: Final = 16
_SINGLE: Final = (AffinityOperator.GT, AffinityOperator.LT)
_WITHOUT: Final = (AffinityOperator.EXISTS, AffinityOperator.DOES_NOT_EXIST)
# Labels of tasks are text: comparing them as numbers has no meaning.
_OF_TASKS: Final = tuple(operator for operator in AffinityOperator if operator not in _SINGLE)
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"(?:[a-z0-9](?:[a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE: Final = re.compile(rf"(?:{_NAME})?")


def _expressions(
    part: Section, path: str, raw: Sequence[Any], among: Sequence[AffinityOperator] = tuple(AffinityOperator)
) -> list[dict[str, Any]]:
    """The expressions of one term."""
    return [_expression(part, f"{path}.{number}", item, among) for number, item in enumerate(raw)]


def read_node_terms(part: Section, key: str) -> dict[str, Any]:
    """Required terms for nodes, each a list of expressions, and preferred ones with weights."""
    affinity = part.section(key, ("required", "preferred"))
    terms = []
    for index, raw in enumerate(affinity.items("required", limit=32)):
        path = affinity.at(f"required.{index}")
        if isinstance(raw, Mapping):
            term = Section.read(raw, path, ("match_expressions",), part.problems)
            terms.append(_expressions(part, path, term.items("match_expressions", limit=32)))
        elif isinstance(raw, list):
            terms.append(_expressions(part, path, raw))
        else:
            affinity.add(f"required.{index}", "TYPE", _("Must be a list of expressions."))
    found = {"required": terms, "preferred": _preferred_nodes(part, affinity)}
    return {kind: value for kind, value in found.items() if value}


def _preferred_nodes(part: Section, affinity: Section) -> list[dict[str, Any]]:
    """Terms for nodes that are preferred, each with its weight."""
    terms = []
    for number, raw in enumerate(affinity.items("preferred", limit=_TERMS_MAX)):
        path = affinity.at(f"preferred.{number}")
        term = Section.read(raw, path, ("weight", "match_expressions"), part.problems)
        wishes = term.items("match_expressions", limit=32)
        if not wishes:
            term.add("match_expressions", "REQUIRED", _("Specify the preferred nodes."))
        expressions = _expressions(part, term.at("match_expressions"), wishes)
        terms.append({"weight": _weight(term), "match_expressions": expressions})
    return terms


def read_pod_terms(part: Section, key: str) -> dict[str, Any]:
    """Required and preferred terms about other tasks of the workspace."""
    affinity = part.section(key, ("required", "preferred"))
    found: dict[str, Any] = {}
    for kind in ("required", "preferred"):
        listed = affinity.items(kind, limit=_TERMS_MAX)
        weighed = kind == "preferred"
        terms = [_pod_term(part, affinity.at(f"{kind}.{n}"), raw, weighed) for n, raw in enumerate(listed)]
        if terms:
            found[kind] = terms
    return found


def read_labels(part: Section, key: str) -> dict[str, str]:
    """The labels of a job's own tasks."""
    found = read_selector(part, key)
    for name in found:
        if is_reserved_label(name):
            part.add(f"{key}.{name}", "RESERVED", _("Labels with this prefix are reserved."))
    return found


def _pod_term(part: Section, path: str, raw: Any, weighed: bool) -> dict[str, Any]:
    known = ("topology_key", "match_labels", "match_expressions", *(("weight",) if weighed else ()))
    term = Section.read(raw, path, known, part.problems)
    domain = term.text("topology_key", limit=317)
    if not domain:
        message = _("Specify the domain: %(levels)s, or a node label.")
        term.add("topology_key", "REQUIRED", message % {"levels": ", ".join(LEVELS)})
    expressions = _expressions(
        part, term.at("match_expressions"), term.items("match_expressions", limit=32), _OF_TASKS
    )
    found: dict[str, Any] = {"topology_key": domain}
    if labels := read_selector(term, "match_labels"):
        found["match_labels"] = labels
    if expressions:
        found["match_expressions"] = expressions
    return {"weight": _weight(term), **found} if weighed else found


def _weight(term: Section) -> int:
    if not term.has("weight"):
        term.add(
            "weight",
            "REQUIRED",
            _("A preference requires a weight from 1 to %(most)s.") % {"most": WEIGHT_MAX},
        )
        return 1
    return term.integer("weight", default=1, low=1, high=WEIGHT_MAX)


def read_selector(part: Section, key: str) -> dict[str, str]:
    """Labels and the values that they have, of the forms and lengths that Kubernetes takes."""
    raw = part.value(key, {})
    if not isinstance(raw, Mapping) or len(raw) > 64:
        part.add(key, "TYPE", _("Must be a map of at most 64 labels."))
        return {}
    found: dict[str, str] = {}
    for name, value in raw.items():
        if not isinstance(value, str):
            part.add(f"{key}.{name}", "TYPE", _("Must be a string, in quotes."))
        elif not _KEY.fullmatch(str(name)) or not _VALUE.fullmatch(value):
            part.add(f"{key}.{name}", "FORMAT", _("Invalid label. Use the form app: database."))
        else:
            found[str(name)] = value
    return found


def _expression(part: Section, path: str, raw: Any, among: Sequence[AffinityOperator]) -> dict[str, Any]:
    item = Section.read(raw, path, ("key", "operator", "values"), part.problems)
    key = item.text("key", limit=317)
    if not key:
        item.add("key", "REQUIRED", _("Specify the label."))
    if not item.has("operator"):
        choices = _("Must be one of: %(choices)s.") % {"choices": ", ".join(among)}
        item.add("operator", "REQUIRED", choices)
    operator = AffinityOperator(item.choice("operator", list(among), default=AffinityOperator.EXISTS))
    values = item.texts("values", limit=64, length=63)
    if operator in _WITHOUT and values:
        item.add("values", "CONTRADICTION", _("This operator takes no values."))
    elif operator in _SINGLE and not (len(values) == 1 and values[0].lstrip("-").isdecimal()):
        item.add("values", "FORMAT", _("This operator takes one whole number."))
    elif operator not in (*_SINGLE, *_WITHOUT) and not values:
        item.add("values", "REQUIRED", _("This operator takes at least one value."))
    return {"key": key, "operator": operator.value, "values": list(values)}
