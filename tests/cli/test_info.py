"""deepwishart info."""

import json

from deepwishart.cli.directory import ModelDirectory

from .conftest import refused, run


def test_says_what_the_model_is(model):
    shown = run("info", model).output
    for words in ("dwp", "price", "colour (3 categories)", "SquaredExponential", "log likelihood"):
        assert words in shown
    facts = json.loads(run("info", model, "--json").stdout)
    chosen = {"depth": 2, "process": "dwp", "likelihood": "gaussian", "num_inducing": 8}
    assert facts["model"].items() >= chosen.items()
    assert list(facts["layers"]) == ["layer 1", "output layer"]
    scales = facts["layers"]["layer 1"]["lengthscale"]
    assert len(scales) == 6 and list(scales.values()) == sorted(scales.values())
    assert 0 < facts["likelihood"]["price"]["standard deviation"] < 30
    assert facts["holdout"]["rows"] == 6


def test_values_that_overflow(model, tmp_path, monkeypatch):
    """The logarithm of a lengthscale may be finite, and the lengthscale not."""
    load = ModelDirectory.load

    def damaged(self):
        saved = load(self)
        saved.regressor.model_.output.kernel.log_lengthscale.data.fill_(1e5)
        return saved

    monkeypatch.setattr(ModelDirectory, "load", damaged)
    for more in ([], ["--json"]):
        refused(run("info", model, *more), "infinite")
