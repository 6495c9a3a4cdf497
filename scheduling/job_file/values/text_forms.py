"""The forms of texts in a job file."""

from __future__ import annotations

from typing import Final

from django.utils.translation import gettext_noop as _

from clusters.gpu.reserved import could_be_reserved, is_reserved_mount
from foundation.core.identifiers import is_dns_label
from scheduling.job_file.values.kinds import Form

_LABEL: Final = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
NAME: Final = Form.of_pattern(
    rf"{_LABEL}(?:\.{_LABEL})*", _("Use lowercase letters, digits, dots and hyphens, for example my-data.")
)
"""The name of an object in the workspace's namespace."""
DNS_LABEL: Final = Form(is_dns_label, _("Use lowercase letters, digits and hyphens, for example train-1."))
TAG: Final = Form(
    lambda tag: tag and tag.isprintable() and tag == tag.strip() and "," not in tag,
    _("Use visible characters without commas, for example team:nlp."),
)
ABSOLUTE: Final = Form(lambda path: path.startswith("/"), _("Must be an absolute path, for example /data."))
MOUNTABLE: Final = Form(lambda path: ":" not in path, _("Must be an absolute path, for example /data."))
OWN_MOUNT: Final = Form(
    lambda path: not is_reserved_mount(path),
    _("This path is reserved."),
    "RESERVED",
)
BELOW: Final = Form(
    lambda path: path and not path.startswith("/") and ".." not in path.split("/"),
    _("Must be a path below the volume's root, for example run-1/data."),
)
PREFIX: Final = Form.of_pattern(
    r"[A-Za-z_][A-Za-z0-9_]*", _("Specify the prefix of the variables, for example HUB_.")
)
OWN_PREFIX: Final = Form(
    lambda prefix: not could_be_reserved(prefix),
    _("This prefix is reserved."),
    "RESERVED",
)
