"""Training: protocols, a guarded loop, checkpoints, progress, early stopping, several processes."""

from deepwishart.training.checkpoint import (
    Checkpoint,
    CheckpointError,
    CheckpointStore,
    CheckpointWarning,
    checkpoint_store,
)
from deepwishart.training.deterministic import train_deterministic
from deepwishart.training.guard import TrainingError
from deepwishart.training.history import (
    History,
    ProgressEvent,
    has_settled,
    make_progress,
    still_rising,
)
from deepwishart.training.loop import run_training, train
from deepwishart.training.protocol import (
    ALL_ROWS,
    Protocol,
    adjust_protocol,
    inducing_points,
    model_options,
)

__all__ = [
    "ALL_ROWS",
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "CheckpointWarning",
    "History",
    "ProgressEvent",
    "Protocol",
    "TrainingError",
    "adjust_protocol",
    "checkpoint_store",
    "has_settled",
    "inducing_points",
    "make_progress",
    "model_options",
    "run_training",
    "still_rising",
    "train",
    "train_deterministic",
]
