"""The match of node labels with selectors, required affinity and taints, by Kubernetes' rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from scheduling.engine.model import AffinityOperator, Expression, Taint, TaintEffect, Toleration


def has_labels(labels: Mapping[str, str], wanted: Iterable[tuple[str, str]]) -> bool:
    """Return whether the labels have every wanted pair."""
    return all(labels.get(key) == value for key, value in wanted)


def matches_expression(labels: Mapping[str, str], expression: Expression) -> bool:
    """Return whether one expression holds for the labels; a label that is no whole number fails Gt and Lt."""
    value = labels.get(expression.key)
    match expression.operator:
        case AffinityOperator.EXISTS:
            return value is not None
        case AffinityOperator.DOES_NOT_EXIST:
            return value is None
        case AffinityOperator.IN:
            return value in expression.values
        case AffinityOperator.NOT_IN:
            return value not in expression.values
        case AffinityOperator.GT | AffinityOperator.LT:
            number, bound = (
                _parse_whole_number(value),
                _parse_whole_number(expression.values[0] if expression.values else None),
            )
            if number is None or bound is None:
                return False
            return number > bound if expression.operator is AffinityOperator.GT else number < bound


def matches_any_term(labels: Mapping[str, str], terms: Iterable[tuple[Expression, ...]]) -> bool:
    """Return whether all expressions of at least one term hold; an empty term matches nothing."""
    return any(
        bool(term) and all(matches_expression(labels, expression) for expression in term) for term in terms
    )


def has_untolerated_taint(taints: Iterable[Taint], tolerations: tuple[Toleration, ...]) -> bool:
    """Return whether a taint with the effect NoSchedule or NoExecute is not tolerated."""
    return any(
        taint.effect is not TaintEffect.PREFER_NO_SCHEDULE
        and not any(toleration.tolerates_taint(taint) for toleration in tolerations)
        for taint in taints
    )


def _parse_whole_number(text: str | None) -> int | None:
    try:
        return None if text is None else int(text)
    except ValueError:
        return None
