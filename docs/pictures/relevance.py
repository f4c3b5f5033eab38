"""
Which columns matter
====================

``regressor.relevance`` takes the lengthscales of the first layer and, given held-out rows, what the
log score loses when a column's values are dealt out at random.
:func:`~deepwishart.plots.relevance` draws both, and so does ``deepwishart explain``.
"""

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from deepwishart import DeepKernelRegressor, plots
from deepwishart.estimators.relevance import dependence

table = load_diabetes(as_frame=True)
X, X_test, y, y_test = train_test_split(table.data, table.target, test_size=0.2, random_state=0)
regressor = DeepKernelRegressor(n_inducing=20, max_iter=100, n_predict_samples=20, random_state=0)
regressor.fit(X, y)
figure = plots.relevance(regressor.relevance(X_test, y_test, n_repeats=2))

# %%
# :func:`~deepwishart.plots.partial_dependence` says in which direction: the mean prediction over
# rows with one column set to each of several values, and the band of the functions that the
# posterior thinks possible.

rows = X_test.to_numpy()[:12]
curves = {}
for name in ("bmi", "s5", "age"):
    column = X.columns.get_loc(name)
    values = np.linspace(*X[name].quantile([0.05, 0.95]), 9)
    curves[name] = (values, dependence(regressor, rows, [column], values[:, None]))
shown = plots.partial_dependence(curves, target="progression")
