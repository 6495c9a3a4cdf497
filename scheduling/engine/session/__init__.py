"""This package holds what the actions of one cycle share: configuration, session, equivalence classes, user
allowances."""
