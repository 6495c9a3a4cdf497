"""Settings, layered: `base` is shared, `embedded`, `production` and `test` choose what differs."""
