"""The series of any measure of the catalogue, and the growth of counters."""
