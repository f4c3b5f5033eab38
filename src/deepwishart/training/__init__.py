"""Training: protocols, a guarded loop, checkpoints, progress, early stopping, several processes."""

from deepwishart.training.checkpoint import (
    Checkpoint,
    CheckpointError,
    CheckpointStore,
    CheckpointWarning,
)
from deepwishart.training.deterministic import is_deterministic, train_deterministic
from deepwishart.training.early_stopping import Plateau, still_rising
from deepwishart.training.guard import TrainingError
from deepwishart.training.history import History
from deepwishart.training.loop import train
from deepwishart.training.progress import ProgressEvent, make_progress
from deepwishart.training.protocol import Protocol
from deepwishart.training.run import (
    adjust_protocol,
    checkpoint_store,
    model_options,
    run_training,
)
from deepwishart.training.shallow import start_from_shallow

__all__ = [
    "Checkpoint",
    "CheckpointError",
    "CheckpointStore",
    "CheckpointWarning",
    "History",
    "Plateau",
    "ProgressEvent",
    "Protocol",
    "TrainingError",
    "adjust_protocol",
    "checkpoint_store",
    "is_deterministic",
    "make_progress",
    "model_options",
    "run_training",
    "start_from_shallow",
    "still_rising",
    "train",
    "train_deterministic",
]
