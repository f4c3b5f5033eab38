"""Settings for the whole test session."""

import os
import signal

import torch

# A shell that starts the tests in the background has them ignore Ctrl-C, which some of them test.
signal.signal(signal.SIGINT, signal.default_int_handler)


# pytest-xdist starts one process per core: more threads than that only take turns.
if "PYTEST_XDIST_WORKER" in os.environ:
    torch.set_num_threads(1)
