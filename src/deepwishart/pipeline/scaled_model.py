"""A model together with the units of its data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepwishart.models import DeepKernelProcess, build
from deepwishart.pipeline.rescaled import RescaledPredictive
from deepwishart.pipeline.standardise import Standardiser

__all__ = ["ScaledModel"]


@dataclass
class ScaledModel:
    """A deep kernel process in standardised units, and the way there and back.

    Args:
        model: the process.
        inputs: how inputs are standardised.
        targets: how targets are standardised.

    >>> X = np.linspace(0.0, 600.0, 30)[:, None]
    >>> scaled = ScaledModel.build("dwp", X, 50 + X, num_inducing=5)
    >>> scaled.standardise(X, 50 + X)[0].std(correction=0).item(), scaled.predict(X, 5).mean.shape
    (1.0, (30, 1))
    """

    model: DeepKernelProcess
    inputs: Standardiser
    targets: Standardiser

    @classmethod
    def build(
        cls,
        process: str,
        X: np.ndarray,
        y: np.ndarray,
        *,
        device: torch.device | str = "cpu",
        **options: Any,
    ) -> ScaledModel:
        """A new model of data ``(N, num_features)`` and ``(N, D)`` in any units.

        Args:
            process: name of the process.
            X: training inputs.
            y: training targets.
            device: where to put the model.
            options: for :func:`deepwishart.build`.
        """
        inputs, targets = Standardiser.fit(X), Standardiser.fit(y)
        data = [
            torch.as_tensor(scaling.forward(values), device=device)
            for scaling, values in ((inputs, X), (targets, y))
        ]
        return cls(build(process, *data, **options), inputs, targets)

    @property
    def num_inducing(self) -> int:
        """Number of inducing points; all layers have the same."""
        owner = self.model if self.model.inducing_inputs is not None else self.model.output
        points = owner.inducing_inputs
        assert isinstance(points, Tensor)
        return points.shape[0]

    def standardise(self, X: np.ndarray, y: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs ``(N, num_features)`` and targets ``(N, D)`` as the model wants them."""
        return self.tensor(self.inputs.forward(X)), self.tensor(self.targets.forward(y))

    def tensor(self, values: np.ndarray) -> Tensor:
        """An array in the model's precision, on its device."""
        return torch.as_tensor(values, dtype=self.model.dtype, device=self.model.device)

    def predict(
        self,
        X: np.ndarray,
        num_samples: int = 100,
        generator: torch.Generator | None = None,
        *,
        squeeze: bool = False,
    ) -> RescaledPredictive:
        """The predictive distribution at inputs and for targets in the units of the data.

        Args:
            X: inputs ``(N, num_features)``.
            num_samples: posterior samples.
            generator: randomness; PyTorch's default generator if ``None``.
            squeeze: drop the column dimension of a single target.
        """
        inputs = self.tensor(self.inputs.forward(X))
        predictive = self.model.predict(inputs, num_samples, generator)
        return RescaledPredictive(predictive, self.targets, squeeze)
