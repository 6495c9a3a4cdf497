"""Templates of notifications reach nothing but their variables."""

from __future__ import annotations

import pytest

from alerts.delivery.templates import VARIABLES, fill_template, find_problem


@pytest.mark.parametrize(
    "template",
    [
        "{rule.__class__}", "{rule[0]}", "{rule!r}", "{rule:>9999999}", "{}", "{0}", "{secret}",
        "{rule:{value}}", "{ rule }", "open {rule", "close }",
    ],
)  # fmt: skip
def test_anything_but_a_plain_variable_is_refused_and_never_filled(template: str) -> None:
    assert find_problem(template)
    with pytest.raises(ValueError):
        fill_template(template, dict.fromkeys(VARIABLES, "x"))


def test_variables_are_filled_once_and_doubled_braces_are_braces() -> None:
    template = "{rule} on {subject}: {{value}} {value}"
    assert find_problem(template) == ""
    values = dict.fromkeys(VARIABLES, "") | {"rule": "{value}", "subject": "a", "value": "7"}
    assert fill_template(template, values) == "{value} on a: {value} 7"
