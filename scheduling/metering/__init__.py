"""The holdings of jobs over time: intervals of allocations, exact to the millisecond."""
