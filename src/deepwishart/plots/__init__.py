"""Pictures of training, predictions and what a model has learned, as matplotlib figures.

Every function takes plain data and returns a new :class:`matplotlib.figure.Figure`, which knows how
to save itself, shows itself in a notebook and belongs to no window. Colours can be told apart by
colour-blind readers (Okabe and Ito for lines, viridis for maps).
"""

from deepwishart.plots.bands import bands, compare_posteriors, posterior
from deepwishart.plots.calibration import calibration, coverage
from deepwishart.plots.gram_matrices import gram_matrices, layer_grams
from deepwishart.plots.layer_changes import (
    BartlettChange,
    bartlett_changes,
    bartlett_parameters,
    layer_divergences,
    learned_divergences,
)
from deepwishart.plots.predictions import predictions
from deepwishart.plots.row_distribution import row_distribution
from deepwishart.plots.training_curves import training_curves

__all__ = [
    "BartlettChange",
    "bands",
    "bartlett_changes",
    "bartlett_parameters",
    "calibration",
    "compare_posteriors",
    "coverage",
    "gram_matrices",
    "layer_divergences",
    "layer_grams",
    "learned_divergences",
    "posterior",
    "predictions",
    "row_distribution",
    "training_curves",
]
