"""The admission of jobs: heads, what each would get, their order, and one decision after another."""
