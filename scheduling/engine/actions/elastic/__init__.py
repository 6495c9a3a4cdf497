"""This package shrinks elastic jobs for pending ones and grows them into idle capacity."""
