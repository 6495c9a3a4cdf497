"""Parses conditions on labels of nodes and of other tasks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.utils.translation import gettext as _

from clusters.gpu.reserved import is_reserved_label
from scheduling.engine.model import AffinityOperator
from scheduling.job_file.values.levels import LEVELS
from scheduling.job_file.values.section import Section

WEIGHT_MAX: Final = 100
_TERMS_MAX: Final = 16
_SINGLE: Final = (AffinityOperator.GT, AffinityOperator.LT)
_WITHOUT: Final = (AffinityOperator.EXISTS, AffinityOperator.DOES_NOT_EXIST)
# Kubernetes does not compare labels of pods as numbers.
_OF_TASKS: Final = tuple(operator for operator in AffinityOperator if operator not in _SINGLE)
_NAME: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,61}[A-Za-z0-9])?"
_KEY: Final = re.compile(rf"(?:[a-z0-9](?:[a-z0-9.-]{{0,251}}[a-z0-9])?/)?{_NAME}")
_VALUE: Final = re.compile(rf"(?:{_NAME})?")


def _expressions(
    part: Section, path: str, raw: Sequence[Any], among: Sequence[AffinityOperator] = tuple(AffinityOperator)
) -> list[dict[str, Any]]:
    """Return the expressions of one term."""
    return [_expression(part, f"{path}.{number}", item, among) for number, item in enumerate(raw)]


def read_node_terms(part: Section, key: str) -> dict[str, Any]:
    """Return required terms for nodes, each a list of expressions, and preferred ones with weights."""
    affinity = part.read_subsection(key, ("required", "preferred"))
    terms = []
    for index, raw in enumerate(affinity.read_items("required", limit=32)):
        path = affinity.path_of(f"required.{index}")
        if isinstance(raw, Mapping):
            term = Section.read_section(raw, path, ("match_expressions",), part.problems)
            terms.append(_expressions(part, path, term.read_items("match_expressions", limit=32)))
        elif isinstance(raw, list):
            terms.append(_expressions(part, path, raw))
        else:
            affinity.add_problem(f"required.{index}", "TYPE", _("Must be a list of expressions."))
    found = {"required": terms, "preferred": _preferred_nodes(part, affinity)}
    return {kind: value for kind, value in found.items() if value}


def _preferred_nodes(part: Section, affinity: Section) -> list[dict[str, Any]]:
    """Return the preferred terms for nodes, each with its weight."""
    terms = []
    for number, raw in enumerate(affinity.read_items("preferred", limit=_TERMS_MAX)):
        path = affinity.path_of(f"preferred.{number}")
        term = Section.read_section(raw, path, ("weight", "match_expressions"), part.problems)
        wishes = term.read_items("match_expressions", limit=32)
        if not wishes:
            term.add_problem("match_expressions", "REQUIRED", _("Specify the preferred nodes."))
        expressions = _expressions(part, term.path_of("match_expressions"), wishes)
        terms.append({"weight": _weight(term), "match_expressions": expressions})
    return terms


def read_pod_terms(part: Section, key: str) -> dict[str, Any]:
    """Return the required and preferred terms for other tasks of the workspace."""
    affinity = part.read_subsection(key, ("required", "preferred"))
    found: dict[str, Any] = {}
    for kind in ("required", "preferred"):
        listed = affinity.read_items(kind, limit=_TERMS_MAX)
        weighed = kind == "preferred"
        terms = [
            _pod_term(part, affinity.path_of(f"{kind}.{n}"), raw, weighed) for n, raw in enumerate(listed)
        ]
        if terms:
            found[kind] = terms
    return found


def read_labels(part: Section, key: str) -> dict[str, str]:
    """Return the labels of a job's own tasks; reserved ones are errors."""
    found = read_selector(part, key)
    for name in found:
        if is_reserved_label(name):
            part.add_problem(f"{key}.{name}", "RESERVED", _("Labels with this prefix are reserved."))
    return found


def _pod_term(part: Section, path: str, raw: Any, weighed: bool) -> dict[str, Any]:
    known = ("topology_key", "match_labels", "match_expressions", *(("weight",) if weighed else ()))
    term = Section.read_section(raw, path, known, part.problems)
    domain = term.read_text("topology_key", limit=317)
    if not domain:
        message = _("Specify the domain: %(levels)s, or a node label.")
        term.add_problem("topology_key", "REQUIRED", message % {"levels": ", ".join(LEVELS)})
    expressions = _expressions(
        part, term.path_of("match_expressions"), term.read_items("match_expressions", limit=32), _OF_TASKS
    )
    found: dict[str, Any] = {"topology_key": domain}
    if labels := read_selector(term, "match_labels"):
        found["match_labels"] = labels
    if expressions:
        found["match_expressions"] = expressions
    return {"weight": _weight(term), **found} if weighed else found


def _weight(term: Section) -> int:
    if not term.has_key("weight"):
        term.add_problem(
            "weight",
            "REQUIRED",
            _("A preference requires a weight from 1 to %(most)s.") % {"most": WEIGHT_MAX},
        )
        return 1
    return term.read_integer("weight", default=1, low=1, high=WEIGHT_MAX)


def read_selector(part: Section, key: str) -> dict[str, str]:
    """Return labels and their values; forms and lengths are those of Kubernetes."""
    raw = part.read_value(key, {})
    if not isinstance(raw, Mapping) or len(raw) > 64:
        part.add_problem(key, "TYPE", _("Must be a map of at most 64 labels."))
        return {}
    found: dict[str, str] = {}
    for name, value in raw.items():
        if not isinstance(value, str):
            part.add_problem(f"{key}.{name}", "TYPE", _("Must be a string, in quotes."))
        elif not _KEY.fullmatch(str(name)) or not _VALUE.fullmatch(value):
            part.add_problem(f"{key}.{name}", "FORMAT", _("Invalid label. Use the form app: database."))
        else:
            found[str(name)] = value
    return found


def _expression(part: Section, path: str, raw: Any, among: Sequence[AffinityOperator]) -> dict[str, Any]:
    item = Section.read_section(raw, path, ("key", "operator", "values"), part.problems)
    key = item.read_text("key", limit=317)
    if not key:
        item.add_problem("key", "REQUIRED", _("Specify the label."))
    if not item.has_key("operator"):
        choices = _("Must be one of: %(choices)s.") % {"choices": ", ".join(among)}
        item.add_problem("operator", "REQUIRED", choices)
    operator = AffinityOperator(item.read_choice("operator", list(among), default=AffinityOperator.EXISTS))
    values = item.read_texts("values", limit=64, length=63)
    if operator in _WITHOUT and values:
        item.add_problem("values", "CONTRADICTION", _("This operator takes no values."))
    elif operator in _SINGLE and not (len(values) == 1 and values[0].lstrip("-").isdecimal()):
        item.add_problem("values", "FORMAT", _("This operator takes one whole number."))
    elif operator not in (*_SINGLE, *_WITHOUT) and not values:
        item.add_problem("values", "REQUIRED", _("This operator takes at least one value."))
    return {"key": key, "operator": operator.value, "values": list(values)}
