"""ModelSpec: its JSON, what it refuses, and the models that it makes."""

import json

import pytest
import torch

import deepwishart as dw
from deepwishart import likelihoods
from deepwishart.kernels import Linear, SquaredExponential
from deepwishart.layers import StackedOutputLayer
from deepwishart.spec import CHOICES, OUTPUTS, PROCESSES, ModelSpec

SPEC = ModelSpec(num_features=3, num_inducing=7, likelihood_options={"noise": 0.2})
VARIANTS = [
    *({"process": process, "output": output} for process in PROCESSES for output in OUTPUTS[:2]),
    *({"posterior": posterior} for posterior in CHOICES["posterior"]),
    *({"kernel": kernel} for kernel in CHOICES["kernel"]),
    *({"likelihood": name, "likelihood_options": {}} for name in CHOICES["likelihood"]),
    {"dtype": "float32", "jitter": 1e-4},
    {"depth": 1},
    {"depth": 1, "output": "exact"},
    {"depth": 4, "width": (2, 5, 1), "ard": False, "mixing": 0.02, "num_outputs": 2},
    {"depth": 2, "kernel": ("matern12", "relu")},
]


def data(outputs: int = 1, rows: int = 20, columns: int = 3):
    generator = torch.Generator().manual_seed(0)
    return (
        torch.randn(rows, columns, generator=generator, dtype=torch.float64),
        torch.randn(rows, outputs, generator=generator, dtype=torch.float64),
    )


def variant(changes) -> ModelSpec:
    if changes.get("likelihood") == "categorical":
        changes = {**changes, "likelihood_options": {"num_classes": 3}}
    return SPEC.replace(**changes)


def test_ard_is_true_or_false():
    with pytest.raises(ValueError, match="ard must be True or False, got 'yes'"):
        SPEC.replace(ard="yes")


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_json_and_back(changes):
    spec = variant(changes)
    again = ModelSpec.from_dict(json.loads(json.dumps(spec.to_dict())))
    assert again == spec
    first, second = (
        {n: (p.shape, p.dtype) for n, p in s.make().state_dict().items()} for s in (spec, again)
    )
    assert first == second and first
    assert spec.make().spec is spec


@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_make_has_the_structure_that_build_gives(changes):
    spec = variant(changes)
    # What build has no argument for, it takes as a likelihood.
    likelihood = spec.make_likelihood()
    X, y = data(spec.num_outputs)
    y = y.abs().round().clamp_max(1.0) if not likelihood.location_scale else y
    names = ("depth", "width", "num_inducing", "kernel", "ard", "output", "mixing", "posterior")
    options = {name: getattr(spec, name) for name in (*names, "jitter")}
    options |= {"likelihood": likelihood, "dtype": spec.torch_dtype}
    built = dw.build(spec.process, X, y, **options)
    assert built.spec == spec.replace(likelihood=built.spec.likelihood, likelihood_options={})
    made = spec.make()
    for parts in ("named_parameters", "named_modules"):
        first, second = (dict(getattr(model, parts)()) for model in (made, built))
        assert list(first) == list(second)
        for name in first:
            assert type(first[name]) is type(second[name])
            assert getattr(first[name], "shape", None) == getattr(second[name], "shape", None)
            assert getattr(first[name], "jitter", None) == getattr(second[name], "jitter", None)


def test_widths_default_to_the_number_of_features():
    assert SPEC.widths == (3,)
    assert SPEC.replace(depth=4, width=2).widths == (2, 2, 2)
    layers = SPEC.replace(depth=4, width=[2, 5, 1]).make().hidden
    assert [layer.width for layer in layers] == [2, 5, 1]


@pytest.mark.parametrize("process", PROCESSES)
def test_a_kernel_for_each_layer_is_copied(process):
    given = SquaredExponential(lengthscale=2.0)
    model = SPEC.replace(process=process, depth=3, kernel=["matern52", given, "arc_cosine1"]).make()
    first, second, last = (layer.kernel for layer in (*model.hidden, model.output))
    assert [type(k).__name__ for k in (first, second, last)] == [
        "Matern52",
        "SquaredExponential",
        "ArcCosine",
    ]
    assert first.num_features == 3  # only the first layer sees features
    assert second is not given and second.log_height.dtype == torch.float64
    assert float(second.lengthscale.detach()) == pytest.approx(2.0)


def test_groups_of_latent_functions_have_a_kernel_each():
    model = SPEC.replace(likelihood="heteroscedastic", num_outputs=2).make()
    assert isinstance(model.output, StackedOutputLayer)
    assert [prior.width for prior in model.output.priors] == [2, 2]
    assert len({id(prior.kernel) for prior in model.output.priors}) == 2


class _Own(likelihoods.Likelihood):
    def distribution(self, latents):
        return torch.distributions.Poisson(latents.exp())


def test_objects_make_models_but_no_json():
    spec = SPEC.replace(kernel=("matern32", Linear()), likelihood=_Own(), likelihood_options={})
    assert isinstance(spec.make().likelihood, _Own)
    with pytest.raises(ValueError, match=r"kernel=Linear\(...\), an object, cannot be written"):
        spec.to_dict()
    with pytest.raises(ValueError, match=r"likelihood=_Own\(...\).* use one of the names gaussian"):
        spec.replace(kernel="linear").to_dict()


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"process": "resnet"}, "choose from dwp, dgp, dsvi, diwp"),
        ({"kernel": ("matern32", "matern521")}, "Did you mean 'matern52'"),
        ({"kernel": ("matern32",) * 3}, "kernel has 3 entries for 2 layers"),
        ({"num_features": 2.5}, "num_features must be an integer of at least 1"),
        ({"width": ()}, "width is empty"),
        ({"width": (2, 2)}, "width has 2 entries for 1 layers; give one value"),
        ({"mixing": 1.5}, "mixing must be strictly between 0 and 1"),
        ({"inputs": "all", "process": "diwp"}, "'dwp', 'dgp' or 'dsvi'"),
        ({"output": "collapsed", "likelihood": "poisson"}, "Poisson needs output='inducing'"),
    ],
)
def test_what_is_refused(changes, sentence):
    with pytest.raises(ValueError, match=sentence):
        SPEC.replace(**changes)


@pytest.mark.parametrize(
    "change", [lambda d: d.pop("depth"), lambda d: d.update(nodes=3), lambda d: d.clear()]
)
def test_json_of_something_else_is_refused(change):
    values = SPEC.to_dict()
    change(values)
    with pytest.raises(ValueError, match="a model is described by num_features, num_outputs"):
        ModelSpec.from_dict(values)
    with pytest.raises(ValueError, match="a model is described by"):
        ModelSpec.from_dict([values])
