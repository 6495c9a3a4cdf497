"""`make bench`: every benchmark, one after the other. With names, only those.

`packing-quality` takes long and arguments of its own, so it runs by name alone.
"""

from __future__ import annotations

import sys

from benchmarks import engine_cycle, packing, packing_quality, pipeline, replay
from benchmarks.report import show

ALL = {
    "engine-cycle": engine_cycle.run,
    "packing": packing.run,
    "pipeline": pipeline.run,
    "replay": replay.run,
}


def main(names: list[str]) -> int:
    """Run them and print their tables; the status is 1 when any is over its limit."""
    if names[:1] == ["packing-quality"]:
        return packing_quality.main(names[1:])
    unknown = sorted(set(names) - set(ALL))
    if unknown:
        sys.stderr.write(f"no benchmark {unknown[0]!r}; there are {', '.join(ALL)}\n")
        return 2
    return max(show(ALL[name](), None) for name in names or ALL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
