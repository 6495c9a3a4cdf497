"""This package finds what would help a pending job; every recommendation is tried before it is reported."""
