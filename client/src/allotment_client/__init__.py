"""Typed client of Allotment's REST API.

>>> from allotment_client import Client, read_configuration
>>> with Client(read_configuration()) as client:
...     job = client.submit("vision", {"roles": [{"resources": {"gpu": {"cards": 1}}}]})
...     client.wait("vision", job["id"], deadline_s=3600)

A refused request raises a `Problem` with its stable code and the invalid fields.
"""

from allotment_client.client import Client
from allotment_client.config import Configuration, read_configuration
from allotment_client.errors import (
    ConfigurationError,
    DeadlineExceeded,
    FieldProblem,
    Problem,
    ServerUnreachable,
)
from allotment_client.shapes import Explanation, Job, JobEvent, LogLine, QuotaRow, Reason

__version__ = "0.1.0"

__all__ = [
    "Client",
    "Configuration",
    "ConfigurationError",
    "DeadlineExceeded",
    "Explanation",
    "FieldProblem",
    "Job",
    "JobEvent",
    "LogLine",
    "Problem",
    "QuotaRow",
    "Reason",
    "ServerUnreachable",
    "read_configuration",
]
