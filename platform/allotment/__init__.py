"""The composition root: settings, entry points, supervisor and command line. Nothing imports it.

This module must not import anything: `allotment pack` runs in an installation that has
neither Django nor Celery.
"""
