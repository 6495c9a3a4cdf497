"""Names and docstrings of the whole product use the words of docs/glossary.md."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.architecture.sources import ROOT, find_files, parse_file, read_file, walk_tree

PACKAGES = (
    "platform",
    "tenants",
    "quotas",
    "scheduling",
    "frontend",
    "benchmarks",
    "client/src",
    "docs/examples",
)

# Names that contain a retired word because they are contracts: columns of the database and keys of the API.
CONTRACTS = frozenset((
    "cores_granted", "cpu_granted", "memory_granted", "granted_at", "keys_kept",
    "cpu_standing", "memory_standing", "pods_standing", "standing",
))  # fmt: skip

# A word that no name may contain, and the word to use in its place.
RETIRED = {
    "afters": "expected_fragmentation",
    "alike": "equivalent",
    "anybody": "any",
    "anyone": "any",
    "askable": "preemptible",
    "bare": "vacated",
    "bearable": "max_loss",
    "book": "ledger, records, or a verb such as reserve",
    "books": "ledger or records",
    "breathe": "shrink and grow",
    "census": "workload_mix",
    "comeback": "eviction_cycle_guard",
    "contender": "head",
    "contest": "search context",
    "crowd": "candidates",
    "dear": "costly",
    "dearest": "costliest",
    "docket": "nominator",
    "everybody": "all",
    "everyone": "all",
    "foregone": "precluded",
    "foresee": "preview",
    "foresight": "expected_fragmentation",
    "gains": "consolidation_gain",
    "gone": "removed or released",
    "granted": "allocated",
    "ground": "clearance",
    "grounds": "topology",
    "hear": "evaluate",
    "heard": "evaluated",
    "homeless": "unplaced",
    "hopeless": "infeasible",
    "hopes": "surplus",
    "kept": "own_nominal, prepared, cached or remaining",
    "learnt": "workload_mix",
    "leftover": "expected_fragmentation",
    "lenders": "surplus",
    "likes": "equivalence_class",
    "movers": "movable",
    "nobody": "none",
    "occupants": "node_occupancy",
    "outlook": "future",
    "overhang": "over_quota",
    "patience": "protection deadline",
    "pile": "queue of candidates",
    "plea": "request",
    "presence": "name it after what is counted",
    "prospect": "freeable",
    "rehearse": "dry_run",
    "rehearsed": "previewed",
    "rehearses": "has or handles a dry run",
    "roster": "candidate index",
    "seat": "placement",
    "seated": "placed",
    "seating": "placement",
    "seats": "slots or placements",
    "shunned": "excluded",
    "shut": "excluded",
    "site": "nodes",
    "somebody": "some",
    "stand": "placement",
    "standing": "placed",
    "stands": "placed",
    "stood": "was placed",
    "surrender": "release",
    "tell": "report",
    "told": "marked or reported",
    "touches": "changes",
    "tournament": "FairSharingIterator",
    "unheard": "unreachable",
    "unseated": "unplaced",
    "whom": "jobs are not people",
    "worn": "loss",
}

# A docstring that begins with one of these has no subject.
# fmt: off
FRAGMENT = frozenset((
    "What", "Who", "Whom", "Whose", "Whether", "How", "Which", "That", "Where", "When", "Why",
    "Those", "These", "As", "At", "Beside", "Between", "Both", "By", "For", "From", "In", "Into",
    "Like", "Of", "On", "Since", "Than", "To", "Under", "Until", "Up", "Upon", "With", "Within",
    "Without", "So", "Such",
))
# fmt: on

ONE_WORD_SHARE = 0.10
# Names that Django, DRF, Celery, argparse, another library or a published interface demands.
DEMANDED = frozenset((
    "get", "post", "put", "patch", "delete", "run", "handle", "save", "clean", "ready", "send",
    "close", "main", "validate", "check", "copy",
    "allows", "applies", "score", "key", "pick",
    "authenticate", "dispatch", "initial", "wait", "parse", "render",  # DRF and Django's widgets
    "dumps", "loads", "find", "path",  # Django's caches
    "filter", "load", "login",  # logging, psycopg, allauth
    "submit", "readable", "readinto", "makefile", "sendall",  # executors and sockets of the standard library
    "collect", "describe",  # Prometheus
))  # fmt: skip
# Modules whose functions are the words of a language that other people write.
LANGUAGES = {
    "frontend/templatetags": "filters and tags of templates: `{{ value|percent }}`, `{% meter quota %}`",
    "client/src/allotment_client/client.py": "the published client: `client.submit(…)`, `client.jobs(…)`",
}

_ROW_AND_VALUE = "a row of the database or its choices, and the value with which the engine computes"
_IN_THE_CLIENT = (
    "an object of the API in the client, a distribution of its own, and the server's row or value"
)
# Public class names that have two meanings on purpose.
SAME_NAME = {
    **dict.fromkeys((
        "Allocation", "Claim", "DeviceSlice", "GpuMode", "Job", "Quota", "QuotaNode", "Queue",
        "Decision", "DecisionKind", "Device", "Flavor", "JobState", "Node", "UserUsage",
        "AllocationMode", "Preference", "PreemptOthers", "PreemptWithin", "StopPolicy", "Strategy", "WhenCan",
    ), _ROW_AND_VALUE),
    **dict.fromkeys(("Help", "JobEvent", "LogLine", "QuotaRow", "Reason"), _IN_THE_CLIENT),
    "Role": "the permissions of a person in a tenant, and a group of equal tasks in a job file",
    "Command": "Django finds a management command by this name",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Definition:
    """A name that a module introduces, and its place."""

    name: str
    place: str


def sources() -> dict[str, str]:
    """Return every module of the product by its path below the repository, without generated migrations."""
    return {str(file.relative_to(ROOT)): read_file(file) for file in find_files(*PACKAGES)}


def modules() -> dict[str, ast.Module]:
    return {path: parse_file(ROOT / path) for path in sources()}


def definitions(path: str, tree: ast.Module) -> Iterator[Definition]:
    """Yield each name that a module introduces: its own and those of functions, classes and variables."""
    yield Definition(Path(path).stem, path)
    for node in walk_tree(tree):
        names: list[str | None] = []
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names = [node.name]
            case ast.arg():
                names = [node.arg]
            case ast.Name(ctx=ast.Store()):
                names = [node.id]
            case ast.Attribute(ctx=ast.Store()):
                names = [node.attr]
            case ast.alias():
                names = [node.asname]
        for name in names:
            if name is not None:
                yield Definition(name, f"{path}:{getattr(node, 'lineno', 1)}")


def words(name: str) -> list[str]:
    """Return the words of an identifier: `_legalOf_HTTPQueue2` has legal, of, http and queue."""
    return [word.lower() for word in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+", name)]


def retired_names(path: str, tree: ast.Module) -> list[str]:
    return [
        f"{each.place} {each.name}: not {word}, but {RETIRED[word]}"
        for each in definitions(path, tree)
        for word in words(each.name)
        if word in RETIRED and each.name not in CONTRACTS
    ]


def public_functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Yield public functions and methods that are called; properties are nouns."""
    for node in walk_tree(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.name.startswith("_"):
            continue
        decorators = [ast.unparse(each) for each in node.decorator_list]
        if node.name not in DEMANDED and not any(
            "property" in each or ".setter" in each for each in decorators
        ):
            yield node


def one_word_functions(trees: Iterable[tuple[str, ast.Module]]) -> tuple[list[str], int]:
    """Return the public functions whose name is one word, and the number of all."""
    functions = [
        (path, node)
        for path, tree in trees
        if not path.startswith(tuple(LANGUAGES))
        for node in public_functions(tree)
    ]
    single = [f"{path}:{each.lineno} {each.name}" for path, each in functions if "_" not in each.name]
    return single, len(functions)


def fragments(path: str, tree: ast.Module) -> list[str]:
    """Return the docstrings whose first sentence has no subject."""
    found = []
    for node in walk_tree(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            first = re.match(r"\W*(\w+)", text)
            if first is not None and first[1] in FRAGMENT:
                found.append(f"{path}:{getattr(node, 'lineno', 1)} {text.splitlines()[0]}")
    return found


def repeated_classes(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return public classes whose name another module uses for a class of its own."""
    places = defaultdict(list)
    for path, text in texts.items():
        for name in re.findall(r"^class ([A-Za-z]\w*)", text, re.MULTILINE):
            places[name].append(path)
    return {name: paths for name, paths in places.items() if len(paths) > 1 and name not in SAME_NAME}


def test_no_name_contains_a_retired_word() -> None:
    assert [line for path, tree in modules().items() for line in retired_names(path, tree)] == []


@pytest.mark.parametrize("package", PACKAGES)
def test_functions_are_verb_and_object(package: str) -> None:
    trees = [each for each in modules().items() if each[0].startswith(package)]
    single, total = one_word_functions(trees)
    assert len(single) <= ONE_WORD_SHARE * total, "\n".join(single)


def test_class_names_have_one_meaning() -> None:
    assert repeated_classes(sources()) == {}


def test_docstrings_begin_with_a_subject_or_a_verb() -> None:
    assert [line for path, tree in modules().items() for line in fragments(path, tree)] == []


def test_every_exception_is_needed() -> None:
    names = {each.name for path, tree in modules().items() for each in definitions(path, tree)}
    classes = defaultdict(set)
    for path, text in sources().items():
        for name in re.findall(r"^class ([A-Za-z]\w*)", text, re.MULTILINE):
            classes[name].add(path)
    assert CONTRACTS - names == set()
    assert [name for name in SAME_NAME if len(classes[name]) < 2] == []
    assert [path for path in LANGUAGES if not any(each.startswith(path) for each in sources())] == []
    assert DEMANDED - names == set()


@pytest.mark.parametrize(
    "source",
    [
        "def seats_left(): pass",
        "def f(ground): pass",
        "class VictimRoster: pass",
        "class X:\n    def f(self): self._told = 1",
        "import numpy as docket",
        "for crowd in (): pass",
    ],
)
def test_a_planted_word_is_found(source: str) -> None:
    assert len(retired_names("planted.py", ast.parse(source))) == 1


def test_a_planted_module_name_is_found() -> None:
    assert retired_names("planted/comeback.py", ast.parse("")) != []


def test_the_use_of_another_folders_name_is_not_a_definition() -> None:
    assert retired_names("planted.py", ast.parse("row.book(task)\nprint(seats)")) == []


def test_planted_fragments_are_found() -> None:
    source = '"""What is asked."""\ndef f():\n    """Whether it fits."""\nclass X:\n    """A plain noun."""\n'
    assert [line.split()[0] for line in fragments("planted.py", ast.parse(source))] == [
        "planted.py:1",
        "planted.py:2",
    ]


def test_planted_one_word_functions_are_counted() -> None:
    nouns = "class X:\n    @property\n    def id(self): pass\n    def get(self): pass\n"
    source = f"def at(): pass\ndef find_victims(): pass\n{nouns}"
    assert one_word_functions([("planted.py", ast.parse(source))]) == (["planted.py:1 at"], 2)


def test_a_planted_repeated_class_is_found() -> None:
    texts = {"a.py": "class Row:\n    pass\n", "b.py": "class Row(Base): ...\n\nclass Job:\n    pass\n"}
    assert repeated_classes(texts) == {"Row": ["a.py", "b.py"]}
