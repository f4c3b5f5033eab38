"""
Probabilities of classes
========================

:func:`~deepwishart.plots.reliability` compares how often a class was the true one with the
probability that the classifier gave it.
"""

from sklearn.datasets import load_breast_cancer
from sklearn.model_selection import train_test_split

from deepwishart import DeepKernelClassifier, plots
from deepwishart.metrics import reliability

split = train_test_split(*load_breast_cancer(return_X_y=True), test_size=0.4, random_state=0)
X, X_test, y, y_test = split
classifier = DeepKernelClassifier(n_inducing=20, max_iter=100, random_state=0).fit(X, y)
curve = reliability(classifier.predict_proba(X_test), y_test, bins=6)
figure = plots.reliability({"dwp": curve})
