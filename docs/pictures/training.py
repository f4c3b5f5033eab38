"""
The course of training
======================

:func:`~deepwishart.plots.training_curves` shows the bound and the learned noise of one or several
models. Steps in which the Kullback--Leibler term fades in are left out of the bound, since their
objective is none.
"""

from sklearn.datasets import load_diabetes

from deepwishart import DeepKernelRegressor, plots

X, y = load_diabetes(return_X_y=True)
models = {
    process: DeepKernelRegressor(process, depth=2, n_inducing=20, max_iter=100, random_state=0).fit(
        X, y
    )
    for process in ("dwp", "dgp")
}
figure = plots.training_curves({name: model.history_ for name, model in models.items()})
