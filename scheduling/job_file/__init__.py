"""The job specification: the YAML or JSON body a user writes, as typed values.

`parse_job` reads it and collects every mistake at once, each with the path of its field; `to_mapping`
turns a stored job back into the same shape.
"""

from scheduling.job_file.job import TASKS_MAX, parse_job
from scheduling.job_file.levels import level_label
from scheduling.job_file.mapping import to_mapping
from scheduling.job_file.text import JOB_BOUNDS, load_text
from scheduling.job_file.types import GpuSpec, JobSpec, RoleSpec

__all__ = [
    "JOB_BOUNDS",
    "TASKS_MAX",
    "GpuSpec",
    "JobSpec",
    "RoleSpec",
    "level_label",
    "load_text",
    "parse_job",
    "to_mapping",
]
