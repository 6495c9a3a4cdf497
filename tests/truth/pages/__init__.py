"""Numbers of quota, allocation and use on pages, compared with the rows of the database."""
