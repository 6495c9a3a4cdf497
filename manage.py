#!/usr/bin/env python
"""Django's command line for Allotment; `allotment <command>` is the same thing."""

from allotment.cli import main

if __name__ == "__main__":
    main()
