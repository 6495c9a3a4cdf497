"""This package moves running tasks together so that a pending job fits."""
