"""Pure arithmetic of who has which part of a quota: division among children, and loans over time."""
