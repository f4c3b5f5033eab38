"""Pictures of training, predictions and what a model has learned, as matplotlib figures.

Every function takes plain data and returns a new :class:`matplotlib.figure.Figure`, which knows how
to save itself, shows itself in a notebook and belongs to no window. Colours can be told apart by
colour-blind readers (Okabe and Ito for lines, viridis for maps).
"""

from deepwishart.plots.calibration import against_truth, calibration, reliability
from deepwishart.plots.posteriors import posteriors
from deepwishart.plots.relevance import partial_dependence, relevance
from deepwishart.plots.training_curves import training_curves

__all__ = [
    "against_truth",
    "calibration",
    "partial_dependence",
    "posteriors",
    "relevance",
    "reliability",
    "training_curves",
]
