"""Reading where a job's tasks may run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from scheduling.engine.model import AffinityOperator, TaintEffect, TolerationOperator
from scheduling.spec.section import Section

KEYS: Final = (
    "node_name", "node_selector", "node_affinity", "pod_affinity", "pod_anti_affinity", "tolerations",
    "topology",
)  # fmt: skip
_SINGLE: Final = (AffinityOperator.GT, AffinityOperator.LT)
_WITHOUT: Final = (AffinityOperator.EXISTS, AffinityOperator.DOES_NOT_EXIST)


def read_placement(job: Section) -> dict[str, Any]:
    """Placement as normalised JSON: only what restricts anything, affinity as lists of expressions."""
    part = job.section("placement", KEYS)
    for key in ("pod_affinity", "pod_anti_affinity"):
        part.refuse(key, _("placing tasks by other pods is not supported yet"))
    part.refuse("topology", _("placing tasks by topology is not supported yet"))
    found: dict[str, Any] = {
        "node_name": part.text("node_name", limit=253) or None,
        "node_selector": _selector(part),
        "node_affinity": _affinity(part),
        "tolerations": [
            _toleration(part, index, item) for index, item in enumerate(part.items("tolerations", limit=64))
        ],
    }
    return {key: value for key, value in found.items() if value}


def _selector(part: Section) -> dict[str, str]:
    raw = part.values.get("node_selector") or {}
    if not isinstance(raw, Mapping) or len(raw) > 64:
        part.add("node_selector", "TYPE", _("must be a mapping of at most 64 labels"))
        return {}
    for key, value in raw.items():
        if not isinstance(value, str):
            part.add(f"node_selector.{key}", "TYPE", _("must be text; put it in quotes"))
    return {str(key): str(value) for key, value in raw.items()}


def _affinity(part: Section) -> dict[str, Any]:
    affinity = part.section("node_affinity", ("required", "preferred"))
    affinity.refuse("preferred", _("preferred terms are not supported yet; use required"))
    terms = []
    for index, raw in enumerate(affinity.items("required", limit=32)):
        if isinstance(raw, Mapping):
            term = Section.read(
                raw, affinity.at(f"required.{index}"), ("match_expressions",), part.problems
            ).items("match_expressions", limit=32)
        elif isinstance(raw, list):
            term = raw
        else:
            affinity.add(f"required.{index}", "TYPE", _("must be a list of expressions"))
            continue
        path = affinity.at(f"required.{index}")
        terms.append([_expression(part, f"{path}.{n}", item) for n, item in enumerate(term)])
    return {"required": terms} if terms else {}


def _expression(part: Section, path: str, raw: Any) -> dict[str, Any]:
    item = Section.read(raw, path, ("key", "operator", "values"), part.problems)
    key = item.text("key", limit=317)
    if not key:
        item.add("key", "REQUIRED", _("name the label"))
    if not item.has("operator"):
        item.add(
            "operator",
            "REQUIRED",
            _("must be one of: %(choices)s") % {"choices": ", ".join(AffinityOperator)},
        )
    operator = AffinityOperator(
        item.choice("operator", list(AffinityOperator), default=AffinityOperator.EXISTS)
    )
    values = item.texts("values", limit=64, length=63)
    if operator in _WITHOUT and values:
        item.add("values", "CONTRADICTION", _("this operator takes no values"))
    elif operator in _SINGLE and not (len(values) == 1 and values[0].lstrip("-").isdecimal()):
        item.add("values", "FORMAT", _("this operator takes one whole number"))
    elif operator not in (*_SINGLE, *_WITHOUT) and not values:
        item.add("values", "REQUIRED", _("this operator takes at least one value"))
    return {"key": key, "operator": operator.value, "values": list(values)}


def _toleration(part: Section, index: int, raw: Any) -> dict[str, str]:
    item = Section.read(
        raw, part.at(f"tolerations.{index}"), ("key", "operator", "value", "effect"), part.problems
    )
    key, value = item.text("key", limit=317), item.text("value", limit=63)
    operator = item.choice("operator", list(TolerationOperator), default=TolerationOperator.EQUAL)
    effect = item.choice("effect", list(TaintEffect), default="")
    if operator == TolerationOperator.EQUAL and not key:
        item.add("key", "REQUIRED", _("name the taint, or use the operator Exists"))
    if operator == TolerationOperator.EXISTS and value:
        item.add("value", "CONTRADICTION", _("the operator Exists takes no value"))
    found = {"key": key, "operator": operator, "value": value, "effect": effect}
    return {name: text for name, text in found.items() if text}
