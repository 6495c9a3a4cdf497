"""Quota files: YAML and CSV, read with the line of every value and written back."""

from quotas.files.read import FILE_BOUNDS, read_rows
from quotas.files.rows import COLUMNS, FileFormat, FileProblems, FileRow, PoolRow, PoolShare, Row, find_format
from quotas.files.write import write_rows

__all__ = [
    "COLUMNS",
    "FILE_BOUNDS",
    "FileFormat",
    "FileProblems",
    "FileRow",
    "PoolRow",
    "PoolShare",
    "Row",
    "find_format",
    "read_rows",
    "write_rows",
]
