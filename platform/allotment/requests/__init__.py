"""The handling around every HTTP request: bodies, errors, denials, sign-ins."""
