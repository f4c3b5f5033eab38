"""Small problems for the estimator's tests."""

import numpy as np
import pytest
import torch

from deepwishart.estimators import DeepKernelRegressor


@pytest.fixture(autouse=True, scope="package")
def one_thread():
    """Models this small are slower on several threads."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def small(process="dwp", **parameters):
    """A regressor that trains in a tenth of a second."""
    settings = {
        "depth": 2,
        "n_inducing": 12,
        "n_samples": 2,
        "n_predict_samples": 10,
        "max_iter": 10,
        "learning_rate": 0.05,
        "random_state": 0,
    }
    return DeepKernelRegressor(process, **{**settings, **parameters})


@pytest.fixture(scope="package")
def make():
    """The function that makes small regressors."""
    return small


@pytest.fixture(scope="package")
def data():
    """A smooth function of two inputs, with a little noise: X (60, 2) and y (60,)."""
    random = np.random.RandomState(0)
    X = random.uniform(-2, 2, size=(60, 2))
    return X, 50 + 10 * np.sin(X[:, 0]) + 5 * X[:, 1] + 0.5 * random.normal(size=60)
