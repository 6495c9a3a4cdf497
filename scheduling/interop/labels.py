"""Kubernetes label selectors as they stand in objects."""

from __future__ import annotations

from collections.abc import Mapping

from scheduling.engine.model import AffinityOperator, Expression
from scheduling.engine.placement.labels import carries, holds
from scheduling.interop.fields import Fields


def matches(labels: Mapping[str, str], selector: Fields, operators: Mapping[str, AffinityOperator]) -> bool:
    """Whether labels satisfy `matchLabels` and `matchExpressions`; an empty selector takes everything."""
    return carries(labels, selector.pairs("matchLabels").items()) and all(
        holds(
            labels,
            Expression(
                entry.text("key"),
                entry.choice("operator", operators, AffinityOperator.IN),
                entry.texts("values"),
            ),
        )
        for entry in selector.parts("matchExpressions")
    )
