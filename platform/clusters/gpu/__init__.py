"""How cards are cut and what is written down about it, per mechanism; free of Django and of any client."""
