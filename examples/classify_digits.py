"""Classes, with probabilities
============================

Handwritten digits told apart, with a probability for every one of them. ::

    python examples/classify_digits.py --steps 300

A prediction that the model is not sure of can be left to a person: probabilities say which.
"""

import argparse

import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from deepwishart import DeepKernelClassifier


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=300)
    options = parser.parse_args(arguments)

    data = load_digits(n_class=5)
    X, X_test, y, y_test = train_test_split(data.data, data.target, test_size=0.6, random_state=0)
    classifier = DeepKernelClassifier(n_inducing=60, max_iter=options.steps, random_state=0)
    classifier.fit(X, y)

    probabilities = classifier.predict_proba(X_test)
    labels = classifier.classes_[probabilities.argmax(1)]
    loss = -classifier.log_prob(X_test, y_test).mean()
    print(f"{len(y)} digits to learn from, {len(y_test)} others to tell apart")
    print(f"accuracy  {np.mean(labels == y_test):.3f}")
    print(f"log loss  {loss:.3f} (a guess by frequency has {np.log(5):.3f})")

    sure = probabilities.max(1)
    order = np.argsort(sure)
    print("\nthe least certain of them:")
    for row in order[:3]:
        said = ", ".join(f"{p:.2f}" for p in probabilities[row])
        print(f"  a {y_test[row]}, probabilities of 0 to 4: {said}")
    kept = order[len(order) // 10 :]
    print(f"accuracy without the least certain tenth: {np.mean(labels[kept] == y_test[kept]):.3f}")


if __name__ == "__main__":
    main()
