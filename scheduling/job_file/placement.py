"""Reading where a job's tasks may run, and where they had better."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from django.utils.translation import gettext as _

from scheduling.engine.model import TaintEffect, TolerationOperator, TopologyMode
from scheduling.job_file.levels import LEVELS
from scheduling.job_file.section import Section
from scheduling.job_file.terms import (
    read_expressions,
    read_labels,
    read_pod_terms,
    read_preferred_nodes,
    read_selector,
)

KEYS: Final = (
    "node_name", "node_selector", "node_affinity", "pod_affinity", "pod_anti_affinity", "tolerations",
    "topology", "labels",
)  # fmt: skip
_TOPOLOGY_MODES: Final = (TopologyMode.REQUIRED.value, TopologyMode.PREFERRED.value)


def read_placement(job: Section) -> dict[str, Any]:
    """Placement as normalised JSON: only what restricts or prefers anything, affinity as lists of terms."""
    part = job.section("placement", KEYS)
    found: dict[str, Any] = {
        "node_name": part.text("node_name", limit=253) or None,
        "node_selector": read_selector(part, "node_selector"),
        "node_affinity": _affinity(part),
        "pod_affinity": read_pod_terms(part, "pod_affinity"),
        "pod_anti_affinity": read_pod_terms(part, "pod_anti_affinity"),
        "tolerations": [
            _toleration(part, index, item) for index, item in enumerate(part.items("tolerations", limit=64))
        ],
        "topology": _topology(part),
        "labels": read_labels(part, "labels"),
    }
    return {key: value for key, value in found.items() if value}


def _affinity(part: Section) -> dict[str, Any]:
    affinity = part.section("node_affinity", ("required", "preferred"))
    terms = []
    for index, raw in enumerate(affinity.items("required", limit=32)):
        path = affinity.at(f"required.{index}")
        if isinstance(raw, Mapping):
            term = Section.read(raw, path, ("match_expressions",), part.problems)
            terms.append(read_expressions(part, path, term.items("match_expressions", limit=32)))
        elif isinstance(raw, list):
            terms.append(read_expressions(part, path, raw))
        else:
            affinity.add(f"required.{index}", "TYPE", _("must be a list of expressions"))
    found = {"required": terms, "preferred": read_preferred_nodes(part, affinity)}
    return {key: value for key, value in found.items() if value}


def _topology(part: Section) -> dict[str, str]:
    if not part.values.get("topology"):
        return {}
    topology = part.section("topology", ("level", "mode"))
    level = topology.text("level", limit=317)
    if not level or (level not in LEVELS and "/" not in level):
        message = _("name a level: %(levels)s, or a node label such as example.com/block")
        topology.add("level", "CHOICE" if level else "REQUIRED", message % {"levels": ", ".join(LEVELS)})
    mode = topology.choice("mode", _TOPOLOGY_MODES, default=TopologyMode.PREFERRED.value)
    return {"level": level, "mode": mode}


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
