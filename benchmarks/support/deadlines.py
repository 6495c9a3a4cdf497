"""The factor of deadlines while processes of the platform start."""

from __future__ import annotations

import os
from typing import Final

DEADLINE_FACTOR: Final = 3 if os.environ.get("CI") else 1
"""The factor in CI, where all tests run at once on few cores and processes start several times slower.

A deadline only ends failing tests, so a longer one costs nothing otherwise.
"""
