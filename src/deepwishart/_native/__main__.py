"""``python -m deepwishart._native``: build the native kernels ahead of time."""

from deepwishart._native import status

print(f"native kernels: {status()}")
