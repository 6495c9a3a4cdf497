"""Declares the fields of probes and of the pre-stop hook of a container."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop as _

from scheduling.job_file.declaration.field import Field
from scheduling.job_file.values.kinds import ChoiceKind, PartKind, Text, Texts, Whole
from scheduling.job_file.values.text_forms import ABSOLUTE

_PORT_MAX: Final = 65_535


def action_fields(path: str) -> tuple[Field, ...]:
    """Return the fields of an action on a container: a program in it, or a request to it."""
    return (
        Field(
            f"{path}.command",
            Texts(64, empty=_("Specify the program to run, for example [cat, /ready].")),
            help="A program in the container, with its arguments.",
        ),
        Field(f"{path}.http", PartKind("Http"), help="A request to the container."),
        Field(
            f"{path}.http.path",
            Text(1024, (ABSOLUTE,)),
            help="Asked for below the address of the task.",
            default="/",
        ),
        Field(
            f"{path}.http.port",
            Whole(1, _PORT_MAX),
            help="The port of the request.",
            required=_("Specify the port, for example 8080."),
        ),
        Field(
            f"{path}.http.scheme", ChoiceKind(("HTTP", "HTTPS")), help="How it is asked.", otherwise="HTTP"
        ),
    )


def probe_fields(name: str, help_text: str) -> tuple[Field, ...]:
    """Return the fields of one of the three probes of a container."""
    path = f"roles.probes.{name}"
    return (
        Field(path, PartKind("Probe", one_of=("command", "http", "tcp")), help=help_text),
        *action_fields(path),
        Field(f"{path}.tcp", Whole(1, _PORT_MAX), help="A port that has to accept connections."),
        Field(
            f"{path}.delay_s",
            Whole(0, 3600),
            help="Seconds from the start to the first question.",
            otherwise="0",
        ),
        Field(
            f"{path}.period_s", Whole(1, 3600), help="Seconds from one question to the next.", otherwise="10"
        ),
        Field(f"{path}.timeout_s", Whole(1, 300), help="Seconds in which it has to answer.", otherwise="1"),
        Field(f"{path}.failures", Whole(1, 1000), help="So many in a row count as a failure.", otherwise="3"),
        Field(
            f"{path}.successes",
            Whole(1, 100),
            help="So many in a row count as a success; more than one for readiness alone.",
            otherwise="1",
        ),
    )
