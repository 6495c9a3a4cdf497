"""The first account of an embedded installation."""

from __future__ import annotations

from typing import Final

OPERATOR: Final = "operator"
# In the home folder, readable by its owner only, until the password was changed.
SIGN_IN_FILE: Final = "first-sign-in.json"
