"""``python -m deepwishart.native``: have the native code ready, and say which is used."""

from deepwishart import native

status = native.status()
print(f"native kernels: {status}" + (f" from {native.library()}" if status == "loaded" else ""))
