"""Tests of this folder that run only on request."""

from __future__ import annotations

import os

# PyTorch takes 700 MB of disk: see CONTRIBUTING.md.
collect_ignore = [] if os.environ.get("ALLOTMENT_TORCHRUN") else ["test_real_torchrun.py"]
