r"""The one numerical seam: factorisations, and the operations that carry the cost of training.

Each operation is a function of tensors, defined in ordinary PyTorch. Beside its definition stand
the CPU kernel, an autograd function around the compiled loops of :mod:`deepwishart.native`, and
the derivation of its gradient; PyTorch's dispatcher chooses
(:mod:`deepwishart.numerics.operation`).
Loops see exactly one batch dimension; operations take any.
"""
