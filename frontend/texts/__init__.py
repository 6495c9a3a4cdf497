"""Texts that people read: labels of codes, reasons, amounts and times."""
