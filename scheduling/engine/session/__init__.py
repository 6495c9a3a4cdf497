"""What the actions of one cycle share: configuration, session, equivalence classes, user allowances."""
