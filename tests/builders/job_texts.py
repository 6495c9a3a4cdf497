"""Job files as people write them: any layout, comments everywhere, fields that no form shows.

The text is laid out here, line by line, without a YAML library. Each line is known by the path of its value;
comments and empty lines by that of the mapping or list around them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

_NOTES = ("# keep this", "# name: not-a-key", "# - not an item", "#", "# 中文 {a: 1}", "# \"quote'")

Path = tuple[str | int, ...]


@dataclass
class JobText:
    """The lines of a file, with the path of each; `notes` are comments and empty lines."""

    lines: list[str] = field(default_factory=list)
    of: list[Path] = field(default_factory=list)
    notes: list[bool] = field(default_factory=list)

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    def lines_but(self, *changed: Path, gone: Path = ("nothing",)) -> list[str]:
        """The lines that stay when values at `changed` become others, and that at `gone` is removed."""
        return [
            line
            for line, of, note in zip(self.lines, self.of, self.notes, strict=True)
            if not (of[: len(gone)] == gone if note else any(_meets(of, path) for path in changed))
        ]


def _meets(of: Path, path: Path) -> bool:
    """Return whether a line has a value, or one that contains it, which may be on one line."""
    shorter = min(len(of), len(path))
    return of[:shorter] == path[:shorter]


def write_job_text(random: Random, job: dict[str, Any]) -> JobText:
    """The job in a layout chosen at random."""
    found = JobText()
    if random.random() < 0.2:
        _add(found, "---", (), note=True)
    _mapping(random, found, job, (), "", 0)
    _notes(random, found, "", ())
    return found


def any_job(random: Random) -> dict[str, Any]:
    """A job file that is right in its fields, in any order, with what the form does not show."""
    several = random.choice((1, 1, 2, 3))
    job: dict[str, Any] = {
        "kind": random.choice(("batch", "pytorch")),
        "name": "job-" + random.choice("abc"),
        "queue": "default",
        "priority_class": "normal",
        "tags": random.choice((["baseline"], ["team:nlp", "🚀 go", "<b>"])),
        "preemptible": random.random() < 0.5,
        "min_run_s": random.choice((0, 60)),
        "max_run_s": 86400,
        "checkpoint_interval_s": 1800,
        "gang": {"min_available": several},
        "roles": [_role(random, place) for place in range(several)],
        "environment": random.choice(
            ({"A": "1"}, {"A": "x y", "TOKEN": {"secret": "hub", "key": "t"}}, {"LONG": "a\nb", "B": "#no"})
        ),
        "placement": random.choice(
            (
                {"node_selector": {"disk": "ssd"}},
                {"node_selector": {"disk": "ssd", "zone": "a"}, "tolerations": [{"key": "x"}]},
                {"topology": {"level": "rack"}},
            )
        ),
        "lifecycle": random.choice(
            (
                [{"on": "task_failed", "do": "restart_job", "max": 3}],
                [{"on": "task_evicted", "do": "fail_job"}, {"on": "task_failed", "do": "restart_job"}],
            )
        ),
        "volumes": random.choice(
            (
                [{"claim": "data", "mount": "/data", "read_only": True}],
                [
                    {"empty": "1Gi", "mount": "/tmp"},
                    {"claim": "a", "mount": "/a"},
                    {"claim": "b", "mount": "/b"},
                ],
            )
        ),
        "simulate": {"run_s": 1200, "gpu_utilisation": 0.7},
    }
    for key in random.sample(sorted(job), random.randint(0, 8)):
        if key not in ("roles", "name"):
            del job[key]
    keys = list(job)
    random.shuffle(keys)
    return {key: job[key] for key in keys}


def _role(random: Random, place: int) -> dict[str, Any]:
    gpu: dict[str, Any] = random.choice(
        (
            {"cards": 1},
            {"cards": 2, "mode": "whole", "model": ["A100-40G"]},
            {"mode": "slice", "cores": 30, "memory": "50%", "model": "L40S"},
            {"cards": 1, "mode": "mig", "profile": "1g.10gb"},
        )
    )
    role: dict[str, Any] = {
        "name": f"role-{place}",
        "replicas": random.randint(2, 9),
        "min_replicas": random.randint(1, 2),
        "image": "registry:5000/a/b:1.0",
        "command": random.choice((["python", "a b.py"], ["sh", "-c", "set -e\nrun  it"], ["sleep", 10])),
        "args": ["--flag", "x"],
        "working_directory": "/work",
        "resources": {
            "cpu": random.choice((8, "500m", "8")),
            "memory": "64Gi",
            "shared_memory": "8Gi",
            "gpu": gpu,
        },
    }
    for key in random.sample(sorted(role), random.randint(0, 4)):
        if key not in ("name", "resources"):
            del role[key]
    keys = list(role)
    random.shuffle(keys)
    return {key: role[key] for key in keys}


def _add(found: JobText, line: str, of: Path, *, note: bool = False) -> None:
    found.lines.append(line)
    found.of.append(of)
    found.notes.append(note)


def _notes(random: Random, found: JobText, indent: str, of: Path) -> None:
    while random.random() < 0.25:
        _add(found, random.choice(("", indent + random.choice(_NOTES))), of, note=True)


def _tail(random: Random) -> str:
    return random.choice(("", "", "", "  " + random.choice(_NOTES)))


def _mapping(
    random: Random, found: JobText, value: dict[str, Any], path: Path, first: str, indent: int
) -> None:
    """Lines of a mapping; its first line begins with `first`, such as the dash of a list."""
    margin = " " * indent
    for place, (key, item) in enumerate(value.items()):
        lead = margin
        if place or not first:
            _notes(random, found, margin, path)
        else:
            lead = first
        _entry(random, found, f"{lead}{_key(random, key)}:", item, (*path, key), indent)


def _entry(random: Random, found: JobText, lead: str, item: Any, path: Path, indent: int) -> None:
    deeper = indent + random.choice((1, 2, 4))
    if isinstance(item, dict | list) and item and random.random() < 0.3:
        _add(found, f"{lead} {_flow(random, item)}{_tail(random)}", path)
    elif isinstance(item, dict) and item:
        _add(found, lead + _tail(random), path)
        _mapping(random, found, item, path, "", deeper)
    elif isinstance(item, list) and item:
        _add(found, lead + _tail(random), path)
        dashes = indent + random.choice((0, 2))
        for place, one in enumerate(item):
            _notes(random, found, " " * dashes, path)
            gap = random.choice((1, 1, 3))
            dash = " " * dashes + "-" + " " * gap
            if isinstance(one, dict) and random.random() < 0.7:
                _mapping(random, found, one, (*path, place), dash, dashes + 1 + gap)
            else:
                _add(found, dash + _flow(random, one) + _tail(random), (*path, place))
    elif isinstance(item, str) and "\n" in item and random.random() < 0.7:
        _add(found, f"{lead} |-", path)
        for line in item.split("\n"):
            _add(found, " " * (indent + 3) + line, path)
    else:
        _add(found, f"{lead}{random.choice((' ', ' ', '   '))}{_flow(random, item)}{_tail(random)}", path)


def _key(random: Random, key: str) -> str:
    return f'"{key}"' if random.random() < 0.05 else key


def _flow(random: Random, value: Any) -> str:
    space = random.choice(("", " "))
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(random, key)}: {_flow(random, item)}" for key, item in value.items())
        return "{" + space + inside + space + "}"
    if isinstance(value, list):
        return "[" + space + ", ".join(_flow(random, item) for item in value) + space + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return str(value)
    if "\n" in value:
        return '"' + value.replace("\n", "\\n") + '"'
    plain = value.replace("-", "").replace("/", "").replace(".", "").isalnum() and not value[0].isdigit()
    if plain and value[0] not in "-." and random.random() < 0.6:
        return str(value)
    return random.choice((f"'{value}'", f'"{value}"'))
