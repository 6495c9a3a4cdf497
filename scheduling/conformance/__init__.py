"""Reading and answering in the terms of other schedulers."""
