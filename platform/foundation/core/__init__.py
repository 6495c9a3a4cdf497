"""Values and tools that need no database: errors, clock, quantities, identifiers, bounded parsing."""
