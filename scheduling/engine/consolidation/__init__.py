"""Moving tasks that run so that a waiting one finds room."""
