"""The same draws in every process: they do not depend on what was imported before.

Hypothesis mixes constants into its draws that it reads in the source of the local modules loaded so far. So a worker
that ran other tests before, or a new constant somewhere in the package, would draw other cases, and a failure in CI
could not be reproduced.

Run as a script, this imports the modules named and prints a digest of drawn kernels.
"""

import hashlib
import importlib
import sys

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.internal.conjecture import providers


def ignore_loaded_modules():
    """Draw no constants from the source of loaded modules, as versions of Hypothesis before 6.131."""
    providers._get_local_constants = _known_before


def limit_examples(item, most=None, part=None):
    """Let a law draw at most so many examples, or one in `part` of them."""
    test = getattr(item, "obj", None)
    test = getattr(test, "__func__", test)
    if getattr(test, "is_hypothesis_test", False):
        declared = vars(test).setdefault("_declared_settings", test._hypothesis_internal_use_settings)
        fewer = declared.max_examples // part if part else min(declared.max_examples, most)
        test._hypothesis_internal_use_settings = settings(declared, max_examples=fewer)  # once for each parameter


def _known_before():
    return providers._local_constants  # empty unless the original was called


def digest(strategy, count):
    """A digest of the texts of drawn kernels."""
    drawn = hashlib.sha256()

    @given(strategy)
    @settings(max_examples=count, derandomize=True, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
    def draw(case):
        drawn.update(case.text().encode())

    draw()
    return drawn.hexdigest()


if __name__ == "__main__":
    from random_kernels import cases

    for name in sys.argv[1:]:
        importlib.import_module(name)
    ignore_loaded_modules()
    print(digest(cases(), 40))
