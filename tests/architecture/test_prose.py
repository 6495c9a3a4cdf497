"""Docstrings and comments of the product are written in the words of its field.

Jobs, pods and nodes are things: they are evaluated, reported, placed and evicted. The rules are those of
`docs/glossary.md`; names are checked by `test_vocabulary`, texts for users by `test_user_texts`.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest

from tests.architecture.sources import ROOT, find_files, read_file

PACKAGES = (
    "platform",
    "tenants",
    "quotas",
    "scheduling",
    "frontend",
    "benchmarks",
    "client/src",
    "docs/examples",
    "tests",
)

# A phrase of the old prose, and what to say instead.
RETIRED = {
    r"(some|no|every|any)body|(some|every)one|who(m)?ever|whom": "the user, operator or thing that is meant",
    r"told|tell(s|ing)?": "report, record, mark; distinguish",
    r"g(i|a)ve(s|n)? way|giving way|(to|must|may|shall) leave": "is evicted, preempted or released",
    r"stands?|stood|standing": "is placed, exists, applies",
    r"hears?|heard|hope[sd]?|plea|vouch\w*|judg(e[sd]?|ing|e?ments?)": "evaluate, check, decide",
    r"seat(s|ed)?|homeless|crowd\w*|peace": "placement, unplaced, candidates, stability",
    r"stor(y|ies)": "events, timeline",
    r"rehears\w+|foresee\w*|foresight": "preview, expect",
}
# Where a word of the list is a term: the value of a state, and a substitute of a library.
TERMS = frozenset({"tests/access/actors.py 'nobody'", "tests/e2e/test_agents_on_real_cluster.py 'stand'"})
PATTERN = re.compile("|".join(rf"(?P<g{i}>\b({each})\b)" for i, each in enumerate(RETIRED)), re.IGNORECASE)


def prose_lines(text: str) -> Iterator[tuple[int, str]]:
    """Return each line of a comment or docstring with its number."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        body = getattr(node, "body", None)
        for each in body if isinstance(body, list) else ():
            match each:
                case ast.Expr(value=ast.Constant(value=str(docstring)), lineno=first):
                    yield from enumerate(docstring.splitlines(), first)


def retired_phrases(path: str, text: str) -> list[str]:
    """Return a line for each retired phrase in the prose of a module."""
    advice = list(RETIRED.values())
    return [
        f"{path}:{number} {found[0]!r}, say {advice[int((found.lastgroup or 'g0')[1:])]}"
        for number, line in sorted(prose_lines(text))
        for found in PATTERN.finditer(line)
        if f"{path} {found[0]!r}" not in TERMS
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_prose_uses_the_words_of_the_field(package: str) -> None:
    found = [
        line
        for file in find_files(package)
        for line in retired_phrases(str(file.relative_to(ROOT)), read_file(file))
    ]
    assert found == [], "\n".join(found)


@pytest.mark.parametrize(
    "source",
    [
        "# Nobody waits for it.",
        '"""The job is told to stop."""',
        'class Job:\n    name: str\n    """It gives way to others."""',
        "def f():\n    x = 1  # where the task stands\n",
    ],
)
def test_a_planted_phrase_is_found(source: str) -> None:
    assert len(retired_phrases("planted.py", source)) == 1


def test_every_term_is_needed() -> None:
    used = [term for term in TERMS if (ROOT / term.split()[0]).exists()]
    assert all(term.split()[1].strip("'") in read_file(ROOT / term.split()[0]) for term in used)
    assert len(used) == len(TERMS)


def test_code_and_strings_are_not_prose() -> None:
    assert retired_phrases("planted.py", 'told = "nobody"\nprint(told)\n') == []
