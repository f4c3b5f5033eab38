"""The files that one reads to follow one fit to its bound: few, and CONTRIBUTING.md lists them."""

import json
import os
import re
from pathlib import Path

CONTRIBUTING = Path(__file__).resolve().parents[1] / "CONTRIBUTING.md"
# Functions that run between entering fit and the first return of elbo, by file and in order; the
# bodies of modules and classes, which run when they are imported, are no functions.
SCRIPT = """
import inspect, json, os, sys
import numpy as np
import deepwishart as dw
from deepwishart import bound

package, files = os.path.dirname(dw.__file__) + os.sep, []

def profile(frame, event, _):
    code = frame.f_code
    if not code.co_filename.startswith(package) or not code.co_flags & inspect.CO_OPTIMIZED:
        return
    name = code.co_filename.removeprefix(package)
    if event == "call" and name not in files:
        files.append(name)
    if event == "return" and code is bound.elbo.__code__:
        sys.setprofile(None)
        print(json.dumps(files))

X = np.random.default_rng(0).normal(size=(60, 3))
regressor = dw.DeepKernelRegressor(depth=2, max_iter=2, random_state=0)
sys.setprofile(profile)
regressor.fit(X, np.sin(X[:, 0]))
"""


def test_the_walk_is_short_and_is_the_one_in_contributing(run_fresh) -> None:
    done = run_fresh(SCRIPT, dict(os.environ))
    assert done.returncode == 0, done.stderr
    files = json.loads(done.stdout)
    section = re.search(r"(?s)\n## The walk\n(.*?)\n## ", CONTRIBUTING.read_text("utf-8"))
    listed = re.findall(r"(?m)^\d+\. `([\w/.]+)`", section[1])
    assert set(files) == set(listed), f"the walk is now {', '.join(files)}"
    assert len(files) <= 32
