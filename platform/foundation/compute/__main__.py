"""The command of a process that computes: `python -m foundation.compute SOCKET LIFELINE MODULE…`."""

import sys

from foundation.compute.child import serve_parent

serve_parent(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
