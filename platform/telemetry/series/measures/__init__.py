"""The series of any measure of the catalogue, and the increase of counters."""
