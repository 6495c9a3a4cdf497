"""SQL besides the ORM: prepared statements, bulk writes, keyset paging, row-level security, migrations."""
