"""Runs that are all there without training, with accuracies by hand."""

from small import CONTENT

from ktae.runs import write_json
from ktae_lab.study import cells as expansion
from ktae_lab.study.contrasts import compare
from ktae_lab.study.results import collect

CONTRAST = CONTENT["contrasts"][0]
ACCURACY = {  # by hand; greedy accuracy is .1 more
    "grpo": [0.40, 0.50, 0.60, 0.45, 0.55, 0.50, 0.52],
    "grpo-ktae": [0.45, 0.52, 0.63, 0.49, 0.62, 0.49, 0.58],
}


def write(folder, cell, accuracy):
    folder.path.mkdir(parents=True)
    after = {"sampled_accuracy": accuracy, "greedy_accuracy": accuracy + 0.1}
    write_json(folder.summary, {"recipe": cell.method, "seed": cell.seed, "after": after})
    for step in (1, 2, 3):
        line = {"step": step, "rewards/correct/mean": accuracy * step, "entropy": 0.1 * step}
        folder.append_metrics(line | {"completions/mean_length": 20.0, "seconds": 0.5})


def comparisons(study):
    """What the study compares, without the seconds that its figure takes."""
    runs = collect(study.matrix, study.cells, study.folder)
    digests = expansion.recipe_digests(study.cells)
    return compare(study.matrix, runs, study.folder.announcement(), digests)
