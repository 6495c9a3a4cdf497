"""Texts for users: labels of codes, reasons, amounts and times."""
