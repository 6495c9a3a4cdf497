"""Settings in layers: `base` is shared; `embedded`, `production` and `test` set what differs."""
