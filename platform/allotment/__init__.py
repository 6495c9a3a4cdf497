"""The composition root: settings, entry points, supervisor and command line. Nothing imports it.

This module stays empty of imports on purpose: `allotment pack` runs in an installation that has
neither Django nor Celery.
"""
