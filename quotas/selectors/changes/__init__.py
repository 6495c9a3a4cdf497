"""Reading changes of quota: overrides and loans, requests, and the history."""
