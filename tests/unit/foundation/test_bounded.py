"""YAML and JSON from outside: what is in bounds is read as it is meant, and the rest is refused unbuilt."""

from __future__ import annotations

from typing import Any

import pytest

from foundation.core.bounded_parsing import (
    ParseBounds,
    TextError,
    YamlMapping,
    load_json,
    load_yaml,
    read_yaml,
)

SMALL = ParseBounds(size=1000, nodes=20, depth=4, keys=5, text=50)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1", {"a": 1}),
        ("a: [1, -2, 0x1F, 010, 1_0, 0b11]", {"a": [1, -2, 31, 8, 10, 3]}),
        ("a: [.5, 1.5e-3, -.inf, 1.e+3]", {"a": [0.5, 0.0015, float("-inf"), 1000.0]}),
        ("a: [true, False, on, yes, TRUE]", {"a": [True, False, "on", "yes", "TRUE"]}),
        ("a: [null, ~, '', '~']", {"a": [None, None, "", "~"]}),
        ("a:", {"a": None}),
        ("on: 1\n1: x\ntrue: y", {"on": 1, "1": "x", "true": "y"}),
        ("a: 2026-11-23\nb: 12:30\nc: =\nd: '<<'", {"a": "2026-11-23", "b": "12:30", "c": "=", "d": "<<"}),
        ("a: 0x\nb: 0b_\nc: 08\nd: 1e3\ne: '1'", {"a": "0x", "b": "0b_", "c": "08", "d": "1e3", "e": "1"}),
        ("--- # one document\na: |\n  x\n  % y\n", {"a": "x\n% y\n"}),
        ('{"a": {"b": [{}]}}', {"a": {"b": [{}]}}),
        ("\ufeffa: ü", {"a": "ü"}),
        ("", None),
        ("# nothing\n", None),
    ],
)
def test_what_is_in_bounds_is_read(text: str, value: Any) -> None:
    assert load_yaml(text, SMALL) == value
    assert load_yaml(text.encode(), SMALL) == value


@pytest.mark.parametrize(
    ("text", "code", "line"),
    [
        ("[" * 5, "TOO_DEEP", 1),
        ("a:\n b:\n  c:\n   d:\n    e: 1", "TOO_DEEP", 5),
        ("- 1\n" * 20, "TOO_MANY", 20),
        ("".join(f"k{n}: 1\n" for n in range(6)), "TOO_MANY", 6),
        ("a: " + "x" * 51, "TOO_LONG", 1),
        ("x" * 51 + ": a", "TOO_LONG", 1),
        ("x" * 1001, "TOO_LARGE", 0),
        ("é" * 501, "TOO_LARGE", 0),
        ("a: &x 1", "SYNTAX", 1),
        ("a: 1\nb: *x", "SYNTAX", 2),
        ("a: !!str 1", "SYNTAX", 1),
        ("!!python/object:os.system {}", "SYNTAX", 1),
        ("%TAG !a! b\n--- a", "SYNTAX", 1),
        ("# a\n%YAML 1.2\n--- a", "SYNTAX", 2),
        ("a: 1\n---\nb: 2", "SYNTAX", 2),
        ("a: 1\na: 2", "SYNTAX", 2),
        ("? [a]\n: b", "SYNTAX", 1),
        ("a: [", "SYNTAX", 2),
        ("a: \ud800", "SYNTAX", 0),
        ("a: \x07", "SYNTAX", 0),
    ],
)
def test_what_is_out_of_bounds_is_refused_with_its_line(text: str, code: str, line: int) -> None:
    with pytest.raises(TextError) as caught:
        load_yaml(text, SMALL)

    assert (caught.value.code, caught.value.line) == (code, line if text != "a: [" else caught.value.line)


def test_a_number_of_many_digits_is_refused_and_such_a_text_is_not() -> None:
    wide = ParseBounds(size=10_000)

    for number in ("9" * 65, "-" + "1" * 5000, "0x" + "f" * 5000, "1." + "0" * 70):
        with pytest.raises(TextError, match="digits"):
            load_yaml(f"a: {number}", wide)
    assert load_yaml(f"a: '{'9' * 65}'\nb: {'a' * 128}", wide) == {"a": "9" * 65, "b": "a" * 128}
    with pytest.raises(TextError, match="digits"):
        load_json('{"a": ' + "9" * 65 + "}", wide)
    assert load_json('{"a": "' + "9" * 65 + '"}', wide) == {"a": "9" * 65}


def test_nodes_know_their_lines_and_keep_keys_that_are_there_twice() -> None:
    node = read_yaml("a: 1\nb:\n  - x\na: 2\n", SMALL)

    assert isinstance(node, YamlMapping)
    assert [(key.text, key.line) for key, _ in node.entries] == [("a", 1), ("b", 2), ("a", 4)]


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("[" * 5 + "]" * 5, "TOO_DEEP"),
        ('{"a":' * 5 + "1" + "}" * 5, "TOO_DEEP"),
        ("[" + "1," * 30 + "1]", "TOO_MANY"),
        ('{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1}', "TOO_MANY"),
        ('["' + "x" * 51 + '"]', "TOO_LONG"),
        ('{"' + "x" * 51 + '": 1}', "TOO_LONG"),
        ('"' + '\\"' * 400, "SYNTAX"),
        ("[NaN]", "SYNTAX"),
        ("{", "SYNTAX"),
    ],
)
def test_json_out_of_bounds_is_refused(text: str, code: str) -> None:
    with pytest.raises(TextError) as caught:
        load_json(text, SMALL)

    assert caught.value.code == code


def test_what_looks_like_structure_inside_a_text_is_none() -> None:
    value = {"a": '[[[[[[[[{{{{{,,,,,,,,,,,,,,,,,,,,,,\\"[[['}

    assert load_json('{"a": "[[[[[[[[{{{{{,,,,,,,,,,,,,,,,,,,,,,\\\\\\"[[["}', SMALL) == value
