"""Objects and case tables of Kueue, in the terms of the engine."""
