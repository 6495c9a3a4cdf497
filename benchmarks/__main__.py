"""`make bench`: every benchmark, one after the other. With names, only those.

`api`, `kube` and `packing-quality` take long and arguments of their own, so they run by name alone; so does
`pipeline` when it is given any.
"""

from __future__ import annotations

import sys

from benchmarks import api, engine_cycle, kube, packing, packing_quality, pipeline, replay
from benchmarks.report import show

ALL = {
    "engine-cycle": engine_cycle.run,
    "packing": packing.run,
    "pipeline": pipeline.run,
    "replay": replay.run,
}

ALONE = {"api": api.main, "kube": kube.main, "packing-quality": packing_quality.main}


def main(names: list[str]) -> int:
    """Run them and print their tables; the status is 1 when any is over its limit."""
    alone = ALONE.get(names[0]) if names else None
    if alone is not None:
        return alone(names[1:])
    if names[:1] == ["pipeline"] and names[1:2] and names[1].startswith("-"):
        return pipeline.main(names[1:])
    unknown = sorted(set(names) - set(ALL))
    if unknown:
        sys.stderr.write(f"no benchmark {unknown[0]!r}; there are {', '.join([*ALL, *ALONE])}\n")
        return 2
    return max(show(ALL[name](), None) for name in names or ALL)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
