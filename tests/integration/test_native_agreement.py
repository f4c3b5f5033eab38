"""Whole models with compiled operations, and without."""

import json
import os

import pytest
import torch

SCRIPT = """
import json, torch, deepwishart as dw
from deepwishart import native
generator = torch.Generator().manual_seed(0)
X = torch.randn(40, 3, generator=generator, dtype=torch.float64)
y = X.sin().sum(1)
result = {"status": native.status()}
for process in ("dwp", "dgp", "dsvi", "diwp"):
    for output in ("inducing", "collapsed"):
        model = dw.build(process, X, y, depth=3, num_inducing=12, output=output)
        bound = dw.elbo(model, X, y, num_data=40, generator=torch.Generator().manual_seed(1))
        bound.backward()
        gradients = {name: p.grad.flatten().tolist() for name, p in model.named_parameters()}
        result[f"{process} {output}"] = {"bound": [bound.item()], **gradients}
"""


@pytest.fixture(scope="module")
def run_script(run_fresh):
    def run(**environment: str) -> dict:
        strict = "import warnings; warnings.simplefilter('error')\n"
        script = f"{strict}{SCRIPT}print(json.dumps(result))"
        done = run_fresh(script, {**os.environ, **environment})
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


@pytest.fixture(scope="module")
def plain(run_script):
    return run_script(DEEPWISHART_NATIVE="0")


def test_whole_models_agree_with_and_without_native_code(plain):
    here: dict = {}
    exec(SCRIPT, here)
    native = here["result"]
    assert native["status"] == "loaded"
    assert "DEEPWISHART_NATIVE=0" in plain["status"]
    for model, tensors in plain.items():
        if model == "status":
            continue
        for name, values in tensors.items():
            found = torch.tensor(native[model][name], dtype=torch.float64)
            expected = torch.tensor(values, dtype=torch.float64)
            # Of the largest entry; a first layer starts with its mixing's slope at zero.
            scale = expected.abs().max().clamp_min(1e-6)
            error = float((found - expected).abs().max() / scale)
            assert error < 1e-8, f"{name} of {model} is off by {error:.1e}"


def test_a_broken_compiler_leaves_the_plain_path(plain, run_script, tmp_path):
    broken = run_script(CXX="/nonexistent/compiler", XDG_CACHE_HOME=str(tmp_path))
    assert "did not run" in broken.pop("status")
    assert broken == {model: tensors for model, tensors in plain.items() if model != "status"}
