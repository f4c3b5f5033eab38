"""What likelihoods over classes share: an offset for each latent, a weight for each class."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from deepwishart.likelihoods.base import Likelihood

__all__ = ["ClassLikelihood"]


class ClassLikelihood(Likelihood):
    r"""Targets are numbers of classes, 0 to C - 1, and latents have a learned offset :math:`b`:

    .. math:: p(y \mid f + b)^{w_y}

    Far from the data, where :math:`f` goes back to zero, :math:`b` says how frequent classes are.
    Weights :math:`w` let errors in some classes count more; they are part of the bound, and
    predictions do not know them.

    Args:
        num_classes: C.
        num_outputs: number of target columns.
        num_latents: number of latent columns.
        class_weights: :math:`w`, ``(C,)``; one for every class if ``None``.

    >>> from deepwishart.likelihoods import Bernoulli
    >>> plain, weighted = Bernoulli(), Bernoulli(class_weights=[1.0, 5.0])
    >>> y, zero = torch.ones(1, 1), torch.zeros(1, 1)
    >>> (weighted.expected_log_prob(y, zero, zero) / plain.expected_log_prob(y, zero, zero)).item()
    5.0
    """

    location_scale = False
    class_weights: Tensor

    def __init__(
        self,
        num_classes: int,
        num_outputs: int,
        num_latents: int,
        *,
        class_weights: Sequence[float] | Tensor | None = None,
        dtype: torch.dtype = torch.float64,
    ) -> None:
        super().__init__(num_outputs, num_latents)
        if num_classes < 2:
            raise ValueError(f"There must be at least 2 classes, got {num_classes}.")
        self.num_classes = num_classes
        self.offset = nn.Parameter(torch.zeros(num_latents, dtype=dtype))
        weights = torch.ones(num_classes) if class_weights is None else class_weights
        weights = torch.as_tensor(weights, dtype=dtype)
        if weights.shape != (num_classes,) or not bool(((weights >= 0) & weights.isfinite()).all()):
            raise ValueError(
                f"class_weights must be {num_classes} finite numbers of 0 or more, got "
                f"{weights.tolist()}."
            )
        self.register_buffer("class_weights", weights)

    @torch.no_grad()
    def start_from(self, y: Tensor) -> None:
        """Let the offset start where a model without inputs would end."""
        number = torch.stack([(y == label).sum(0) for label in range(self.num_classes)])
        shares = self.class_weights[:, None] * number + 1e-3  # (C, D)
        self.offset.copy_(self.offset_for(shares / shares.sum(0)))

    @abstractmethod
    def offset_for(self, shares: Tensor) -> Tensor:
        """The offset under which classes have these probabilities, ``(C, D)``, where f is 0."""

    def weights(self, y: Tensor) -> Tensor:
        """The weight of every target's class, in the shape of ``y``."""
        return self.class_weights[y.long()]
