"""Django signals of this package for the packages above."""

from __future__ import annotations

from django.dispatch import Signal

# Sent after commit, with `username`.
password_changed = Signal()
