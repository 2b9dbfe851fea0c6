"""What the library costs: the tables and numbers of docs/performance.md and report.md,
made of the CSVs of benchmarks/ about the estimator, units, verl, the cluster and the report."""

import itertools
from collections.abc import Callable, Mapping

from ktae_lab.csv_files import read_csv
from ktae_lab.tables import page
from ktae_lab.tables.page import Number, Table, markdown, newest, percent

Row = dict[str, str]
Settings = tuple[str, str, str]
"""Rollouts, dtype of the ids, vocabulary: what one call of the benchmark measures everything at."""

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


def driver_memory(scaling: str, gpus: str) -> str:
    """What verl's own tensors take on the driver of the simulated cluster."""
    return f"{newest('cluster', 'scaling', 'gpus')[scaling, gpus]['driver_gb_verl']} GB"


def report() -> str:
    """Building the report of each dump, and scrolling in it."""
    dumps = list(newest("report", "dump", "copies").values())
    lines = {
        "load average while building": lambda row: row["load_average"],
        "time to build, wall clock": lambda row: f"{float(row['build_s']):.0f} s",
        "processor time to build": lambda row: f"{float(row['build_cpu_s']):.0f} s",
        "file": lambda row: f"{float(row['file_mb']):.1f} MB",
        "first paint": lambda row: f"{float(row['first_paint_ms']) / 1000:.1f} s",
        "everything unpacked": lambda row: f"{float(row['ready_ms']) / 1000:.1f} s",
        "frames while scrolling rollouts, median and 95th percentile": lambda row: (
            f"{row['rollouts_frame_p50_ms']} ms, {row['rollouts_frame_p95_ms']} ms"
        ),
        "frames over 50 ms in the three long lists": _slow_frames,
    }
    return markdown(
        ["", *(f"{int(row['rollouts']):,} rollouts" for row in dumps)],
        [[label, *map(cell, dumps)] for label, cell in lines.items()],
    )


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


def sweep() -> str:
    """How time grows: a row a setting of `benchmarks/sweep.py`, by axis."""
    blocks: dict[tuple[str, str], dict[str, Row]] = {}
    for row in read_csv(page.BENCHMARKS / "sweep.csv", ("name", "axis", "median_s")):
        if row["name"] == "paper":  # the first of those that took turns
            blocks[row["axis"], row[AXES[row["axis"]][0]]] = of = {}
        of[row["name"]] = row
    axes, rows = list(AXES), []
    for axis, value in sorted(blocks, key=lambda block: axes.index(block[0])):
        seconds = {name: float(row["median_s"]) for name, row in blocks[axis, value].items()}
        cells = [AXES[axis][1](value), f"{1000 * seconds['paper']:.0f} ms"]
        cells.append(f"{seconds['paper'] / seconds['copy']:.1f}")
        for name in ("calibrated", "trigrams", "tempo", "verl grpo"):
            cells.append(f"{seconds[name] / seconds['paper']:.1f}")
        rows.append(cells)
    head = ["", "`paper`", "in copies", "`calibrated`, of `paper`", "`trigrams`", "`tempo`"]
    return markdown([*head, "verl's GRPO"], rows)


AXES: dict[str, tuple[str, Callable[[str], str]]] = {
    "tokens": ("rollouts", lambda n: f"{int(n):,} rollouts"),
    "group size": ("group_size", lambda n: f"groups of {int(n):,}"),
    "vocabulary": ("vocabulary", lambda n: f"{int(n):,} ids"),
    "mixed": ("mixed", lambda share: f"{100 * float(share):.0f} % of groups mixed"),
    "threads": ("threads", lambda n: f"{n} threads" if int(n) > 1 else "1 thread"),
    "dtype": ("dtype", lambda name: f"ids in {name}"),
}
"""Of `benchmarks/sweep.py`: the column that changes, and how the table calls it."""

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

    A call of the benchmark appends a row for each of its contenders.
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


def _slow_frames(row: Row) -> str:
    """The slow frames of all lists, each of which is given as `slow/all`."""
    lists = [row[f"{name}_over_50ms"].split("/") for name in ("rollouts", "groups", "tokens")]
    slow, frames = (sum(map(int, numbers)) for numbers in zip(*lists, strict=True))
    return f"{slow} of {frames:,}"


TABLES: dict[str, Table] = {
    "estimator-beside-verl": beside_verl,
    "driver": driver,
    "report": report,
    "scale": scale,
    "sweep": sweep,
}
NUMBERS: dict[str, Number] = {
    "estimator-times": estimator_times,
    "estimator-copies": estimator_copies,
    "share-of-step": share_of_step,
    "driver-memory": driver_memory,
}
