"""Single precision survives badly scaled data."""

import pytest
import torch

import deepwishart as dw


def badly_scaled(dtype):
    generator = torch.Generator().manual_seed(0)
    X = torch.randn(40, 5, generator=generator, dtype=dtype)
    X[:, 1] *= 1e-6
    X[:, 2] *= 1e6
    X[:, 3] = 3.0  # constant
    X[10:20] = X[:10]  # duplicate rows
    X[20:24] = X[20]
    y = torch.stack([X[:, 0], X[:, 1] * 1e6], dim=1).sum(1, keepdim=True)
    return X, y


@pytest.mark.parametrize("process", ["dwp", "dgp", "dsvi", "diwp"])
@pytest.mark.parametrize("kernel", ["squared_exponential", "matern12", "relu"])
def test_two_hundred_steps_without_nan(process, kernel):
    X, y = badly_scaled(torch.float32)
    model = dw.build(process, X, y, depth=3, num_inducing=30, kernel=kernel, dtype=torch.float32)
    optimiser = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(1)
    steps = 200 if kernel == "squared_exponential" else 40
    for _ in range(steps):
        optimiser.zero_grad()
        bound = dw.elbo(model, X, y, num_data=40, num_samples=4, generator=generator)
        (-bound).backward()
        for name, parameter in model.named_parameters():
            assert bool(torch.isfinite(parameter.grad).all()), name
        optimiser.step()
        assert bool(torch.isfinite(bound))
    predictive = model.predict(X, num_samples=10, generator=generator)
    assert predictive.mean.dtype == torch.float32
    assert bool(torch.isfinite(predictive.log_prob(y)).all())
