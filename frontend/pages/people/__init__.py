"""Pages of accounts: their list, one of them, invitations, and the names that pickers suggest."""
