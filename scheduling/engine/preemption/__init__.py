"""Who gives way to whom: legal candidates, searches for victims, and what an eviction costs."""
