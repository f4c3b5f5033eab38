"""
Predictions and whether to trust them
=====================================

:func:`~deepwishart.plots.calibration` asks whether probabilities mean what they say: of targets
that were below their predicted 30% quantile with probability 0.3, are three in ten below it?
"""

from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split

from deepwishart import DeepKernelRegressor, metrics, plots

split = train_test_split(*load_diabetes(return_X_y=True), test_size=0.2, random_state=0)
X, X_test, y, y_test = split
models = {
    f"depth {depth}": DeepKernelRegressor(
        depth=depth, n_inducing=20, max_iter=150, random_state=0
    ).fit(X, y)
    for depth in (1, 2)
}
curves = {
    name: metrics.calibration_curve(model.predict_distribution(X_test), y_test)
    for name, model in models.items()
}
figure = plots.calibration(curves, num_rows=len(y_test))

# %%
# For one model, :func:`~deepwishart.plots.against_truth` has targets against predictions.

model = models["depth 2"]
mean = model.predict(X_test)
truth = plots.against_truth(mean, *model.predict_interval(X_test), y_test, target="progression")
