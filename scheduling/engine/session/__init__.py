"""This package holds what the actions of a cycle share: configuration, session, classes and allowances."""
