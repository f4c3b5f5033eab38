"""Settings for the whole test session."""

import os

import torch

# pytest-xdist starts one process per core: more threads than that only take turns.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
