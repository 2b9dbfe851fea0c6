"""What the library costs: the tables and numbers of docs/performance.md, made of the CSV of the
benchmarks of the estimator, of verl's advantages and of large dumps."""

import itertools
from collections.abc import Mapping

from ktae_lab.csv_files import read_csv
from ktae_lab.tables import page
from ktae_lab.tables.page import Number, Table, markdown, newest, percent

Row = dict[str, str]
Settings = tuple[str, str, str]
"""Rollouts, dtype of the ids, vocabulary: of one call of `benchmarks/estimator.py`."""

CPU_AND_COPY = {
    "cpu": "**ktae, CPU backend**",
    "copy": "copying ids, mask and output once (`np.copyto`)",
}
BESIDE_VERL = CPU_AND_COPY | {
    "verl grpo": "verl's `compute_grpo_outcome_advantage` (rollout advantages alone)",
    "verl grpo_vectorized": "verl's `compute_grpo_vectorized_outcome_advantage`",
}
DRIVER = {
    "grpo": "verl's GRPO advantages",
    "ktae": "`adv_estimator=ktae` with those underneath",
}


def beside_verl() -> str:
    """The CPU backend, a copy and verl's advantages, by the size of the batch."""
    return _by_size(BESIDE_VERL, "CPU backend, of a copy")


def estimator_times(rollouts: str, dtype: str, vocabulary: str) -> str:
    """The least and the largest median of all runs on the newest machine, with two threads."""
    medians = [float(paper["median_s"]) for paper, _ in _runs(rollouts, dtype, vocabulary)]
    return f"{min(medians):.2f} to {max(medians):.2f} s"


def estimator_copies(rollouts: str, dtype: str, vocabulary: str) -> str:
    """The same runs, each beside the copy that took turns with it."""
    runs = _runs(rollouts, dtype, vocabulary)
    ratios = [float(paper["median_s"]) / float(copy["median_s"]) for paper, copy in runs]
    return f"{min(ratios):.1f} to {max(ratios):.1f} in {len(runs)} runs"


def driver(prompts: str) -> str:
    """verl's own advantages and ktae's, of this number of prompts, on verl's driver."""
    measured = newest("verl_advantages", "adv_estimator", "prompts")
    of = {name: measured[name, prompts] for name in DRIVER}
    first = of["grpo"]
    size = f"{int(first['rollouts']):,} rollouts, {_millions(first)} tokens, "
    whole = "the batch's" if first["shards"] == "1" else "a shard's"
    head = [
        f"{size}{first['repeats']} rounds, load {first['load']}",
        "median",
        "20 % to 80 %",
        "processor",
        f"memory beyond {whole} {first['inputs_gib']} GiB",
    ]
    rows = []
    for name, row in of.items():
        low, median, high, cpu = (
            f"{float(row[column]):.2f}" for column in ("p20_s", "median_s", "p80_s", "cpu_s")
        )
        bounds = f"{low}–{high} s"
        rows.append([DRIVER[name], f"{median} s", bounds, f"{cpu} s", f"{row['extra_gib']} GiB"])
    return markdown(head, rows)


def share_of_step(model: str) -> str:
    """What ktae's advantages on the driver are of the paper's published step of a model."""
    row = newest("verl_advantages", "adv_estimator", "prompts")["ktae", "1024"]
    return percent(row[f"share_of_{model.lower()}_step"], digits=2)


def scale(rollouts: str) -> str:
    """What each command costs on a dump of that size, beside what it cost before."""
    found = newest("scale", "note", "command", "rollouts")
    rows = []
    for note, command, n in found:
        if (note, n) == ("after", rollouts):
            now, before = found["after", command, n], found.get(("before", command, n), {})
            cells = [LIBRARIES.get(command, f"`{command}`")]
            for name, unit in (("cpu_s", "s"), ("peak_mb", "MB")):
                cells += [f"{float(of[name]):,.0f} {unit}" if of else "" for of in (now, before)]
            rows.append([*cells, f"{now['page_mb']} MB" if now["page_mb"] else ""])
    head = ["", "processor", "before", "peak memory", "before", "page"]
    return markdown(head, rows)


LIBRARIES = {"json.loads": "every line through Python's `json`", "pyarrow": "pyarrow's reader"}


def _by_size(labels: Mapping[str, str], ratio: str) -> str:
    """A row a contender, a column a size; below, the first over the second."""
    rounds = list(_rounds(labels).values())
    first, second = list(labels)[:2]
    repeats = " / ".join(dict.fromkeys(of[first]["repeats"] for of in rounds))
    sizes = [f"{int(of[first]['rollouts']):,} rollouts, {_millions(of[first])}" for of in rounds]
    rows = [[label, *(_milliseconds(of[name]) for of in rounds)] for name, label in labels.items()]
    rows.append([ratio, *(_ratio(of[first], of[second]) for of in rounds)])
    return markdown([f"milliseconds, {repeats} rounds", *sizes], rows)


def _rounds(contenders: Mapping[str, str]) -> dict[Settings, dict[str, Row]]:
    """The newest rounds in which exactly these took turns: by settings, then by name.

    A call of `benchmarks/estimator.py` appends a row for each of its contenders.
    """
    settings = ("rollouts", "dtype", "vocabulary")
    columns = (*settings, "repeats", "date")
    rows = read_csv(page.BENCHMARKS / "estimator.csv", (*columns, "name"))
    found: dict[Settings, dict[str, Row]] = {}
    for (*key, _, _), call in itertools.groupby(rows, lambda row: [row[c] for c in columns]):
        of = {row["name"]: row for row in call}
        if set(of) == set(contenders):
            rollouts, dtype, vocabulary = key
            found[rollouts, dtype, vocabulary] = of
    return found


def _runs(*settings: str) -> list[tuple[Row, Row]]:
    """`paper` with two threads, and the copy beside it, of each run on the newest machine."""
    keys = ("rollouts", "dtype", "vocabulary")
    rows = read_csv(page.BENCHMARKS / "estimator.csv", (*keys, "name", "threads", "cpu"))
    machine, found, open_runs = rows[-1]["cpu"], [], []
    for row in rows:
        if row["cpu"] != machine or tuple(row[key] for key in keys) != settings:
            continue
        if row["name"] in ("cpu", "paper") and row["threads"] == "2":
            open_runs.append(row)
        elif row["name"] == "copy":
            found += [(paper, row) for paper in open_runs]
            open_runs = []
    return found


def _milliseconds(row: Row) -> str:
    """`137 (117–356)`: the median, the 20 % and the 80 % quantile; two digits below 10."""
    low, median, high = (1000 * float(row[name]) for name in ("p20_s", "median_s", "p80_s"))
    digits = 1 if median < 10 else 0
    return f"{median:,.{digits}f} ({low:,.{digits}f}–{high:,.{digits}f})"


def _ratio(one: Row, other: Row) -> str:
    return f"{float(one['median_s']) / float(other['median_s']):.1f}"


def _millions(row: Row) -> str:
    return f"{int(row['tokens']) / 1e6:.1f} M"


TABLES: dict[str, Table] = {
    "estimator-beside-verl": beside_verl,
    "driver": driver,
    "scale": scale,
}
NUMBERS: dict[str, Number] = {
    "estimator-times": estimator_times,
    "estimator-copies": estimator_copies,
    "share-of-step": share_of_step,
}
