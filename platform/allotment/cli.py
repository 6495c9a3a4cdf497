"""The `allotment` command; `python manage.py` is equivalent.

There are three kinds of commands. Offline ones (`pack`, `replay`, `conformance`) run the engine on files and
must work in an installation without Django, as must the `agent` on a node. `up` is the supervisor, which only
starts other processes, and `bench` runs the benchmarks of a checkout. All others are Django management
commands of the packages here.
"""

from __future__ import annotations

import argparse
import difflib
import gc
import importlib
import importlib.util
import sys
from collections.abc import Sequence
from typing import Final

from allotment.processes.startup import USAGE_ERROR, choose_settings, exit_with_error, load_settings

OFFLINE: Final = {
    "pack": "Simulate pod placement from a trace",
    "replay": "Simulate job scheduling from a trace",
    "conformance": "Run conformance cases of other schedulers",
    "agent": "Measure GPUs and resize running slices on this node",
}
OFFLINE_MODULES: Final = {"conformance": "scheduling.conformance.cli", "agent": "telemetry.agent.cli"}
UP_HELP: Final = "Run the platform on this machine: database, broker, web server, workers"
BENCH_HELP: Final = "Run benchmarks and check limits"
OWN_PACKAGES: Final = (
    "allotment", "foundation", "tenants", "clusters", "quotas", "scheduling", "telemetry", "alerts",
    "frontend",
)  # fmt: skip

GROUPS: Final = {
    "Run": ("up", "init", "doctor", "relay", "agent", "seed_demo"),
    "Administer": (
        *("cell", "cluster", "flavor", "node", "tenant", "user", "queue", "quota", "job", "access-key"),
    ),
    "Study": (
        "pack",
        "replay",
        "conformance",
        "trace-import",
        "simulate",
        "cycle-dump",
        "cycle-replay",
        "bench",
    ),
}


def main(argv: Sequence[str] | None = None) -> None:
    """Run one command and end the process with its status: 0 done, 1 failed, 2 bad usage."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    name = arguments[0] if arguments else "--help"
    if name in {"-h", "--help"} or (name == "help" and len(arguments) == 1):
        sys.stdout.write(_overview())
    elif name == "--version":
        sys.stdout.write(f"allotment {_version()}\n")
    elif name in OFFLINE:
        raise SystemExit(_offline(name, arguments[1:]))
    elif name == "up":
        raise SystemExit(_up(arguments[1:]))
    elif name == "bench":
        raise SystemExit(_bench(arguments[1:]))
    else:
        _manage(name, arguments)


def _version() -> str:
    metadata = importlib.import_module("importlib.metadata")
    return str(metadata.version("allotment"))


def _offline(name: str, arguments: list[str]) -> int:
    try:
        commands = importlib.import_module(OFFLINE_MODULES.get(name, "scheduling.simulation.cli"))
    except ModuleNotFoundError as error:
        exit_with_error(f"{name} requires the module {error.name}, which isn't installed")
    parser = argparse.ArgumentParser(prog=f"allotment {name}", description=OFFLINE[name])
    getattr(commands, f"add_{name}_arguments")(parser)
    return int(getattr(commands, f"{name}_command")(parser.parse_args(arguments)) or 0)


def _up(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="allotment up",
        description=UP_HELP,
        epilog=(
            "Environment: PORT (default 8080), ALLOTMENT_HOME (default .allotment). Press Ctrl-C to stop."
        ),
    )
    parser.parse_args(arguments)
    _require_server("up")
    command = importlib.import_module("allotment.supervisor.command")
    return int(command.run_platform())


def _bench(arguments: list[str]) -> int:
    _require_server("bench")
    if importlib.util.find_spec("benchmarks") is None:
        exit_with_error("bench: the benchmarks are part of the source checkout, not of an installed package")
    # Imported by name: the package must not depend on the benchmarks folder.
    return int(importlib.import_module("benchmarks.__main__").main(arguments))


def _require_server(name: str) -> None:
    if importlib.util.find_spec("django") is None:
        exit_with_error(f"{name} requires the server, which isn't installed: pip install 'allotment[server]'")


def _manage(name: str, arguments: list[str]) -> None:
    _require_server(name)
    choose_settings()
    # Modules stay in memory: searching them for reference cycles during the import takes a tenth of the
    # start.
    gc.disable()
    load_settings()
    importlib.import_module("django").setup()
    gc.freeze()
    gc.enable()
    management = importlib.import_module("django.core.management")
    known = sorted({*management.get_commands(), *OFFLINE, "up", "bench", "help"})
    # The documented names have hyphens, which Python modules cannot have.
    module_name = name.replace("-", "_") if name not in known else name
    if module_name not in known:
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]}? " if close else ""
        exit_with_error(f"unknown command {name!r}; {hint}see allotment --help")
    argv = ["allotment", module_name, *arguments[1:]]
    app = management.get_commands().get(module_name, "")
    if not isinstance(app, str) or app.partition(".")[0] not in OWN_PACKAGES:
        management.execute_from_command_line(argv)
        return
    command = management.load_command_class(app, module_name)
    # The project's system checks import every page and figure, which takes as long as the rest of a command;
    # they are about its code, and `make lint` runs them.
    command.requires_system_checks = []
    command.run_from_argv(argv)


def _overview() -> str:
    commands = {**OFFLINE, "up": UP_HELP, "bench": BENCH_HELP}
    note = ""
    if importlib.util.find_spec("django") is None:
        note = "More commands with the server: pip install 'allotment[server]'\n"
    else:
        try:
            commands.update(_management_help())
        except SystemExit:
            note = "Other commands aren't listed because of the invalid settings above.\n"
    lines = ["usage: allotment <command> [options]      allotment <command> --help"]
    grouped = {name for names in GROUPS.values() for name in names}
    others = tuple(sorted(set(commands) - grouped))
    for title, names in [*GROUPS.items(), ("Maintain", others)]:
        listed = [f"  {name:<16} {commands[name]}" for name in names if name in commands]
        lines += [f"\n{title}", *listed] if listed else []
    return "\n".join(lines) + f"\n\n{note}Exit status: 0 success, 1 failure, {USAGE_ERROR} invalid usage.\n"


def _management_help() -> dict[str, str]:
    """Return name and first help line of every command of our packages, and of Django's common ones."""
    load_settings()
    django = importlib.import_module("django")
    management = importlib.import_module("django.core.management")
    django.setup()
    everyday = {"migrate", "createsuperuser", "changepassword", "shell", "check", "collectstatic"}
    found = {}
    for name, app in management.get_commands().items():
        if app.partition(".")[0] in OWN_PACKAGES or name in everyday:
            text = str(management.load_command_class(app, name).help).strip()
            shown = name.replace("_", "-") if name not in GROUPS["Run"] else name
            found[shown] = text.splitlines()[0].split(". ")[0].removesuffix(".") if text else ""
    return found


if __name__ == "__main__":
    main()
