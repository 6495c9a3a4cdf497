"""What jobs hold over time: intervals of allocations, exact to the millisecond."""
