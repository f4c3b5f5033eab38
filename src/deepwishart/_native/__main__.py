"""``python -m deepwishart._native``: have the native code ready, and say which is used."""

from deepwishart import _native

status = _native.status()
print(f"native kernels: {status}" + (f" from {_native.library()}" if status == "loaded" else ""))
