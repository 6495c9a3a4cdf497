"""The values of a job file: kinds, formats, and the typed specification."""
