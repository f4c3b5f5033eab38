"""The paper's experiments: data sets, sweeps, their report, the toy comparison.

Nothing in the rest of the library knows of this package, except the commands that start it.
"""
