r"""A kernel on the layer below times a kernel on the inputs, for layers that see both."""

from __future__ import annotations

import torch
from torch import Tensor

from deepwishart._support.parameters import log_parameter
from deepwishart.kernels.squared_exponential import SquaredExponential


class Joined(SquaredExponential):
    def __init__(self, num_inputs: int, *, dtype: torch.dtype | None = None) -> None:
        super().__init__(dtype=dtype)
        self.num_inputs = num_inputs
        self.log_input_lengthscale = log_parameter("lengthscale", 1.0, num_inputs, dtype=dtype)

    @property
    def needs_features(self) -> bool:
        return True

    def prepare(self, features: Tensor) -> Tensor:
        latents = features.shape[-1] - self.num_inputs
        scale = torch.cat([self.log_lengthscale.expand(latents), self.log_input_lengthscale])
        return features * (-scale).exp()
