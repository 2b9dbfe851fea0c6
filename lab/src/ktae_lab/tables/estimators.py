"""Which estimator: the table of docs/which-estimator.md, of what it needs, costs and tells."""

from typing import NamedTuple

from ktae_lab.tables import rivals
from ktae_lab.tables.held_out import FILES
from ktae_lab.tables.page import Table, markdown, newest


class _Row(NamedTuple):
    """What no measurement says of an estimator."""

    needs: str
    exact: bool
    """Whether its mean under permuted labels is 0 by proof."""
    trained: bool = True
    """Whether it was compared with GRPO."""


ROWS = {
    "paper": _Row("ids, verdicts", False),
    "calibrated": _Row("ids, verdicts", True),
    "trigrams": _Row("ids, verdicts", True),
    "sharp-trigrams": _Row("ids, verdicts", True),
    "tempo": _Row("ids, verdicts", True),
    "conflict-tokens": _Row("ids, verdicts", False),
    "advantage-reweighting": _Row("log-probabilities", True, trained=False),
    "entropy-weights": _Row("entropies", False, trained=False),
}
NONE = "–"


def which() -> str:
    """A row an estimator: needs, cost beside `paper`'s, bias, held-out pairs, training."""
    head = ["`credit:`", "needs", "time, of `paper`'s", "bias under permuted labels"]
    head += ["held-out pairs, whole", "before the answer", "training: sums, lists"]
    rows = []
    for name, row in ROWS.items():
        training = rivals.gains(name) if row.trained else "not run yet"
        pairs = [_pairs(name, part) for part in ("whole", "before the answer")]
        rows.append([f"`{name}`", row.needs, _time(name), _bias(name), *pairs, training])
    return markdown(head, rows)


def _time(name: str) -> str:
    """Both from the same rounds: the last of the file. Of a busy machine, so not the medians."""
    rows = newest("estimators", "name")
    return f"{float(rows[name,]['p20_s']) / float(rows['paper',]['p20_s']):.1f}"


def _bias(name: str) -> str:
    """The largest mean credit of any number of correct rollouts and of those with the token."""
    if ROWS[name].exact:
        return "0, by proof"
    rows = newest("bias", "estimator", "correct", "held_by")
    means = [abs(float(row["mean_credit"])) for key, row in rows.items() if key[0] == name]
    return f"up to {max(means):.2f}" if means else "not measured"


def _pairs(name: str, part: str) -> str:
    """The mean over the dumps, on the half that no estimator was developed on."""
    rows = newest("held_out", "file", "half", "part", "estimator")
    keys = [(file, "confirmation", part, name) for file in FILES]
    if keys[0] not in rows:
        return NONE
    return f"{sum(float(rows[key]['auc']) for key in keys) / len(keys):.2f}"


TABLES: dict[str, Table] = {"which-estimator": which}
