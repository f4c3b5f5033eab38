"""What sphinx-gallery has to know about our scripts: their arguments, and where pictures are."""

from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from sphinx_gallery.scrapers import figure_rst

DRAWN = Path(__file__).parents[1] / "_build" / "drawn"
# Steps of training that the pages take; an example's own default is several times that.
STEPS = {
    "classify_digits": 150,
    "compare_processes": 30,
    "counts": 100,
    "custom_kernel": 100,
    "custom_layer": 100,
    "custom_likelihood": 100,
    "distributions_alone": 200,
    "function_samples": 200,
    "multi_output": 100,
    "noise_that_changes": 200,
    "optimise_with_botorch": 100,
    "tabular_intervals": 150,
}


def arguments(configuration: dict[str, Any], script: dict[str, Any]) -> list[str]:
    """What a script is called with; pictures of our own go to a file of its name."""
    path = Path(script["src_file"])
    if path.stem not in STEPS:
        return []
    words = ["--steps", str(STEPS[path.stem])]
    if path.stem == "compare_processes":
        words += ["--seeds", "1"]
    if "--figure" in path.read_text(encoding="utf-8"):
        DRAWN.mkdir(parents=True, exist_ok=True)
        words += ["--figure", str(DRAWN / f"{path.stem}.svg")]
    return words


def pictures(block: Any, script: dict[str, Any], configuration: dict[str, Any]) -> str:
    """The figures that a block has left in a variable, or in the file it was given."""
    found: list[str] = []
    seen = script.setdefault("seen", set())
    for value in list(script["example_globals"].values()):
        if isinstance(value, Figure) and id(value) not in seen:
            seen.add(id(value))
            found.append(str(Path(next(script["image_path_iterator"])).with_suffix(".svg")))
            value.savefig(found[-1])
    drawn = DRAWN / f"{Path(script['src_file']).stem}.svg"
    if drawn.exists():
        found.append(str(Path(next(script["image_path_iterator"])).with_suffix(".svg")))
        drawn.rename(found[-1])
    return figure_rst(found, configuration["src_dir"])
