"""A job file as texts that submit it: for the command line, for curl, and for Python.

Each reads the access key from ALLOTMENT_KEY, so that no text contains one.
"""

from __future__ import annotations

import shlex
from typing import NamedTuple

from django.http import HttpRequest
from django.utils.translation import gettext as _

_END = "END_OF_JOB"


class SubmitText(NamedTuple):
    """One text; `key` is the id of its block on the page."""

    key: str
    title: str
    text: str


def submit_texts(request: HttpRequest, workspace: str, text: str) -> list[SubmitText]:
    """Return the texts that submit the YAML `text` to a workspace of this server."""
    address = request.build_absolute_uri("/").rstrip("/")
    text = text if text.endswith("\n") else f"{text}\n"
    return [
        SubmitText("copy-cli", _("Command line"), _command_text(address, workspace, text)),
        SubmitText("copy-curl", "curl", _curl_text(address, workspace, text)),
        SubmitText("copy-python", "Python", _python_text(address, workspace, text)),
    ]


def _here_text(command: str, text: str) -> str:
    """Return a shell command that reads `text` unchanged from its standard input."""
    end = _END
    while end in text.splitlines():
        end += "_"
    return f"{command} <<'{end}'\n{text}{end}\n"


def _command_text(address: str, workspace: str, text: str) -> str:
    return _here_text(
        f"allotment-client submit --url {shlex.quote(address)} -w {shlex.quote(workspace)} -f -", text
    )


def _curl_text(address: str, workspace: str, text: str) -> str:
    return _here_text(
        'curl --fail-with-body -H "Authorization: Bearer $ALLOTMENT_KEY" \\\n'
        '  -H "Content-Type: application/yaml" --data-binary @- \\\n'
        f"  {shlex.quote(f'{address}/api/v1/workspaces/{workspace}/jobs')}",
        text,
    )


def _python_text(address: str, workspace: str, text: str) -> str:
    quoted = text.replace("\\", "\\\\").replace('"""', '\\"\\"\\"')
    return (
        "from allotment_client import Client, read_configuration\n\n"
        f'JOB = """\\\n{quoted}"""\n\n'
        f"with Client(read_configuration(url={address!r})) as client:\n"
        f"    print(client.submit({workspace!r}, JOB)['id'])\n"
    )
