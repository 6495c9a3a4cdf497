"""The client's sources on the path: it is a package of its own, installed nowhere but in its own test."""

from __future__ import annotations

import sys
from pathlib import Path

SOURCES = Path(__file__).resolve().parents[2] / "client" / "src"
if str(SOURCES) not in sys.path:
    sys.path.insert(0, str(SOURCES))
