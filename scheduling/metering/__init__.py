"""The usage of jobs over time: intervals of allocations, exact to the millisecond."""
