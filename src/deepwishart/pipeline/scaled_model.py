"""A model together with the units of its data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from deepwishart.models import DeepKernelProcess, Posterior, build
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
    _drawn: dict[tuple[int, int], Posterior] = field(default_factory=dict, repr=False)

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
        """A new model of data ``(N, num_features)`` and ``(N, D)`` in any units; ``options`` are
        those of :func:`deepwishart.build`."""
        inputs, targets = Standardiser.fit(X), Standardiser.fit(y)
        standard = inputs.forward(X), targets.forward(y)
        data = (torch.as_tensor(values, device=device) for values in standard)
        return cls(build(process, *data, **options), inputs, targets)

    def standardise(self, X: np.ndarray, y: np.ndarray) -> tuple[Tensor, Tensor]:
        """Inputs ``(N, num_features)`` and targets ``(N, D)`` as the model wants them."""
        return self.tensor(self.inputs.forward(X)), self.tensor(self.targets.forward(y))

    def tensor(self, values: np.ndarray) -> Tensor:
        """An array in the model's precision, on its device."""
        return torch.as_tensor(values, dtype=self.model.dtype, device=self.model.device)

    def predict(
        self, X: np.ndarray, num_samples: int = 100, seed: int = 0, *, squeeze: bool = False
    ) -> RescaledPredictive:
        """The predictive distribution at inputs and for targets in the units of the data.

        Posterior samples are drawn once for each number and seed, and kept until :meth:`forget`.
        ``squeeze`` drops the column dimension of a single target.
        """
        inputs = self.model.check_inputs(self.tensor(self.inputs.forward(X)))
        if (num_samples, seed) not in self._drawn:
            self.forget()
            generator = torch.Generator(self.model.device).manual_seed(seed)
            self._drawn[num_samples, seed] = self.model.posterior(num_samples, generator)
        prediction = self._drawn[num_samples, seed].predict(inputs)
        return RescaledPredictive(prediction, self.targets, squeeze)

    def forget(self) -> None:
        """Let go of posterior samples; to be called when the model has changed."""
        self._drawn.clear()

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_drawn": {}}
