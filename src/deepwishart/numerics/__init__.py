r"""The operations that carry the cost of training, one per file.

Each file holds an operation's formula, the derivation of its gradient, the autograd function that
calls the compiled loops of :mod:`deepwishart.native`, and its plain path in ordinary PyTorch. That
serves other devices, machines without a compiler, and tests as the reference. Shapes that the
compiled loops see have exactly one batch dimension; the functions here take any.
"""
