"""Small filters that only pages need."""

from __future__ import annotations

from django import template

from frontend.texts import formats, labels, reasons

register = template.Library()


@register.filter
def join_text(left: object, right: object) -> str:
    """Return two values as one text; Django's `add` would fail for an id."""
    return f"{left}{right}"


@register.filter
def join_sentence(sentence: str, next_one: str) -> str:
    """Return two sentences as one text, joined as their language does."""
    return formats.join_html([sentence, next_one])


@register.filter
def cards(value: float | None) -> str:
    """Return GPUs with at most one decimal, and none for whole numbers: `19`, `0.5`."""
    return formats.format_number(value, 0 if value is None or round(value, 1) == round(value) else 1)


@register.filter
def reason_title(code: str) -> str:
    """Return the short title of a reason."""
    return reasons.reason_title(code)


@register.filter
def rule_word(rule: str) -> str:
    """Return the label of the rule that ended an attempt."""
    return labels.rule_word(rule)


@register.filter
def kind_word(kind: str) -> str:
    """Return the label of a job's kind."""
    return labels.kind_word(kind)
