"""The job file: the YAML or JSON that a user writes, parsed to typed values.

`declaration` declares each field once. `parse_job` parses a file and reports all errors together, each with
the path of its field; `to_mapping` converts a stored job back to a job file.
"""

from scheduling.job_file.declaration.field import Field
from scheduling.job_file.declaration.fields import FIELDS
from scheduling.job_file.mapping import job_columns, role_columns, spec_mapping, to_mapping
from scheduling.job_file.parsing.job import TASKS_MAX, parse_job
from scheduling.job_file.values.levels import level_label
from scheduling.job_file.values.text import JOB_BOUNDS, find_lines, load_text
from scheduling.job_file.values.types import GpuSpec, JobSpec, RoleSpec

__all__ = [
    "FIELDS",
    "JOB_BOUNDS",
    "TASKS_MAX",
    "Field",
    "GpuSpec",
    "JobSpec",
    "RoleSpec",
    "find_lines",
    "job_columns",
    "level_label",
    "load_text",
    "parse_job",
    "role_columns",
    "spec_mapping",
    "to_mapping",
]
