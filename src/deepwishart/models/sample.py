r"""The walk through the layers: posterior samples of a whole process, and rows sent through."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from torch import Tensor
from torch.utils.checkpoint import checkpoint

from deepwishart.layers.base import LayerSample, Rows
from deepwishart.layers.output import OutputSample, Summary, add_summaries
from deepwishart.randomness import BLOCK_ROWS, RowRandomness

if TYPE_CHECKING:
    from deepwishart.models.process import DeepKernelProcess

__all__ = ["ProcessSample"]

_CHUNK_ELEMENTS = 2**24  # of the samples x inducing points x rows blocks of all layers together


@dataclass(frozen=True)
class ProcessSample:
    r"""Samples of every layer at the inducing points, :math:`G^1_{ii}, \dots, G^L_{ii} \sim
    \mathrm Q`, from which rows follow one by one.

    Args:
        model: the process.
        layers: samples of its hidden layers, in order.
        output: that of its output layer.
        num_samples: S.

    >>> import deepwishart as dw
    >>> X = torch.linspace(-2, 2, 20, dtype=torch.float64)[:, None]
    >>> random = dw.Randomness(num_samples=4)
    >>> sample = dw.build("dwp", X, X.sin(), depth=3, num_inducing=5).sample(random)
    >>> [tuple(rows.shape) for rows in sample.walk(X, random.rows())]
    [(20, 1), (4, 20, 1), (4, 20, 1)]
    """

    model: DeepKernelProcess
    layers: tuple[LayerSample, ...]
    output: OutputSample
    num_samples: int

    @property
    def log_ratio(self) -> Tensor:
        r""":math:`\sum_\ell \log P(G^\ell_{ii} \mid \cdot) - \log Q(G^\ell_{ii} \mid \cdot)`, the
        output layer included; ``(S,)`` or ``()``."""
        return sum((layer.log_ratio for layer in self.layers), start=self.output.log_ratio)

    def walk(self, X: Tensor, random: RowRandomness, joint: bool = False) -> Iterator[Rows]:
        """The rows ``X`` as they enter the first layer, and as they leave every hidden one.

        Args:
            X: inputs ``(N, num_features)``.
            random: their randomness.
            joint: sample rows with their full covariance; the cost is cubic in N.
        """
        rows: Rows = self.model.scale_inputs(X)
        yield rows
        for index, layer in enumerate(self.layers):
            rows = layer.rows(rows, random.at(index), joint)
            yield rows

    def last_rows(self, X: Tensor, random: RowRandomness, joint: bool = False) -> Rows:
        """The rows as they enter the output layer."""
        *_, rows = self.walk(X, random, joint)
        return rows

    def summarise(
        self,
        X: Tensor,
        y: Tensor,
        random: RowRandomness,
        *,
        joint: bool = False,
        chunk_rows: int | None = None,
    ) -> Summary:
        """The output layer's sums over rows, in memory that does not grow with them.

        Many rows are visited in chunks. For the gradient each chunk is visited again, when the
        gradient of the sums is known: one pass forth, one back.

        Args:
            X: inputs ``(N, num_features)``.
            y: targets ``(N, D)``.
            random: randomness of the rows.
            joint: as in :meth:`walk`; there are no chunks then.
            chunk_rows: rows at a time, a multiple of 1,024; chosen by the size of the model if
                ``None``.
        """

        def visit(start: int, inputs: Tensor, targets: Tensor) -> Summary:
            part = random if start == 0 and len(inputs) == len(X) else random.part(start, len(X))
            rows = self.last_rows(inputs, part, joint)
            return self.output.summarise(rows, targets, self.model.likelihood)

        size = chunk_rows or self._chunk_rows()
        if joint or len(X) <= size:
            return visit(0, X, y)
        if random.total_rows is not None:
            raise ValueError("Rows of a larger table are summarised without further division.")
        return add_summaries(
            checkpoint(
                visit, start, X[start : start + size], y[start : start + size], use_reentrant=False
            )
            for start in range(0, len(X), size)
        )

    def _chunk_rows(self) -> int:
        per_row = self.num_samples * self.model.num_inducing * self.model.depth
        return max(1, _CHUNK_ELEMENTS // (per_row * BLOCK_ROWS)) * BLOCK_ROWS
