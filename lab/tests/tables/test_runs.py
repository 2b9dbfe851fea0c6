"""Tables of runs, their curves, temperatures and the paper, on small studies by hand."""

import gzip

import numpy as np
import pytest

from ktae_lab.tables import by_temperature, equal_accuracy, page, paper, run_curves, runs


@pytest.fixture
def small(tmp_path, monkeypatch):
    """Writes lines as a file of the study `small`."""
    (tmp_path / "small").mkdir()
    monkeypatch.setattr(page, "RESULTS", tmp_path)

    def write(name, lines):
        content = "\n".join(lines).encode()
        is_gzip = name.endswith(".gz")
        (tmp_path / "small" / name).write_bytes(gzip.compress(content) if is_gzip else content)

    return write


def test_steps_with_and_without_the_estimator(tmp_path, monkeypatch):
    """A baseline has no estimator; what one adds is told as a share of the baseline's step too."""
    usual = {"shape": "s", "device": "cpu", "rollouts": 128, "mean_length": 43.5, "rounds": 30}
    usual |= {"seconds_20": 0.9, "seconds_80": 1.234}
    none = dict.fromkeys(("baseline", "added", "added_low", "added_high"), "")
    plain = {"method": "grpo", "seconds": 0.8, "credit_seconds": 0.0} | none
    ktae = {"method": "grpo-ktae", "seconds": 1.0, "credit_seconds": 0.005, "baseline": "grpo"}
    ktae |= {"added": 0.016, "added_low": -0.01, "added_high": 0.0424}
    rows = [usual | plain, usual | ktae]
    text = [",".join(rows[0]), *(",".join(str(row[key]) for key in rows[0]) for row in rows)]
    monkeypatch.setattr(runs, "STEP_TIME", tmp_path / "step_time.csv")
    runs.STEP_TIME.write_text("\n".join(text), encoding="utf-8")
    assert runs.step_time_alone().splitlines()[2:] == [
        "| s, 128 × 43.5 tokens, cpu | `grpo` | 30 | 0.80 s (0.90 to 1.23) |  |  |",
        "| s, 128 × 43.5 tokens, cpu | `grpo-ktae` | 30 | 1.00 s (0.90 to 1.23) "
        "| 5.0 ms (0.50%) | +0.016 (-0.010 to +0.042) s, +2.0% |",
    ]


def test_the_error_of_an_average_by_hand():
    rows = [{"accuracy": "50", "problems": "100"}] * 2 + [{"accuracy": "20", "problems": "16"}] * 2
    # Two models on two benchmarks: standard errors of 5 and 10 points each.
    assert paper.standard_error(rows, 2) == pytest.approx((2 * 25 + 2 * 100) ** 0.5 / 2)


def test_differences_at_a_temperature_are_paired(small):
    """`a` has one seed that `b` lacks, and `b` is better by .1 and .2 in the others."""
    accuracies = {("a", 1): 0.1, ("a", 2): 0.3, ("a", 3): 0.5, ("b", 1): 0.2, ("b", 3): 0.7}
    rows = ["task,method,seed,base_model,temperature,accuracy"]
    rows += [f"t,{method},{seed},,0.5,{x}" for (method, seed), x in accuracies.items()]
    small("temperatures.csv", rows)
    head, _, a, b = by_temperature.temperatures("small", "t", "accuracy", "a").splitlines()
    assert head == "| method | pairs | T = 0.5 |"
    assert a == "| `a` | 3 | 0.300 |"
    assert b.startswith("| `b` | 2 | +0.150 (")


def test_what_goes_with_the_temperature(small):
    """From GRPO's .5 and .8 every seed gains .1 and .05: as much in log-odds, nearly."""
    accuracies = {"grpo": (0.8, 0.5), "b": (0.85, 0.6)}
    rows = ["task,method,seed,base_model,temperature,accuracy"]
    rows += [
        f"t,{method},{seed},,{t},{x}"
        for method, (cold, warm) in accuracies.items()
        for seed in (1, 2, 3)
        for t, x in ((0.5, cold), (1, warm))
    ]
    small("temperatures.csv", rows)
    head, _, accuracy, log_odds = by_temperature.gaps("small", "t", "grpo").splitlines()
    assert head == "|  | T = 0.5 | T = 1 |"
    assert accuracy.endswith("gain here | +0.050 (+0.050 to +0.050) |  |")
    # ln(.85 / .15) - ln(.8 / .2) and ln(.6 / .4) - 0
    assert "| +0.348 (" in log_odds and "| +0.405 (" in log_odds


def test_biases_follow_how_often_groups_are_right(small):
    """Two base models; on the worse one the control shortens by 2, on the better it adds 1."""
    outcomes = ("mean_accuracy", "length", "entropy")
    rows = ["task,method,seed,base_model,state," + ",".join(f"outcome.{o}" for o in outcomes)]
    for base, accuracy, shift in (("demo:0", 0.6, 1), ("demo:1", 0.3, -2)):
        rows += [f"t,grpo,{seed},{base},finished,{accuracy},{20 + seed},.2" for seed in (1, 3)]
        rows.append(f"t,new,1,{base},finished,.5,{21 + shift},{0.2 + shift / 10}")
    rows.append("t,grpo,9,demo:0,failed,,,")
    rows.append("t,new,5,demo:0,finished,.5,90,.9")  # without its pair
    small("runs.csv", rows)
    worse, better, ranks = runs.bias("small", "new:length", "new:entropy").splitlines()[2:]
    assert worse.startswith("| t, 1 | 0.300 | -2.0 | -0.200 |")
    assert better.startswith("| t, 0 | 0.600 | +1.0 | +0.100 |")
    assert ranks.split(" | ")[2] == "1.00"


def test_a_pace_is_a_share_of_the_steps_of_the_baseline():
    """Twice as fast is there after half of the steps, but for the window of 15: its mean is that
    of its middle, seven steps back."""
    base = np.arange(1, 301) / 300
    assert run_curves.pace(base, base, 240) == 1
    assert run_curves.pace(np.minimum(2 * base, 1), base, 240) == pytest.approx(
        (233 / 2 + 7) / 240, abs=0.01
    )
    assert run_curves.pace(base / 2, base, 240) == float("inf")


def test_paces_are_told_by_median_and_range(small):
    rows = ["task,method,seed,base_model,step,accuracy"]
    for seed, gain in ((1, 0), (2, 0), (3, -1)):
        for step in range(1, 61):
            rows.append(f"t,grpo,{seed},,{step},{step / 100}")
            rows.append(f"t,new,{seed},,{step},{step / 100 + gain}")
    small("curves.csv.gz", rows)
    table = run_curves.paces("small", "grpo", "30,60", "new").splitlines()
    assert table[0] == "| task | method | pairs | grpo's step 30 | grpo's step 60 |"
    assert table[2] == "| t | `new` | 3 | 1.00 (1.00 to never) | 1.00 (1.00 to never) |"


def test_the_size_of_credit_is_of_methods_that_have_some(small):
    rows = ["task,method,seed,base_model,step,accuracy,credit_abs"]
    rows += ["t,grpo,1,,1,.5,", "t,new,1,,1,.5,.2", "t,new,1,,2,.5,", "t,new,2,,1,.5,.4"]
    small("curves.csv.gz", rows)
    assert run_curves.mean_credit("small") == {("t", "new"): pytest.approx(0.3)}


def test_who_learns_more_slowly_is_the_same_at_equal_accuracy(small):
    """Length is 40 - 20 x accuracy for all, and 3 more with a direction of its own."""
    rows = ["task,method,seed,base_model,step,accuracy,length,entropy"]
    for seed in (1, 2):
        for step in range(60):
            for method, pace, shift in (("grpo", 1, 0), ("slow", 0.4, 0), ("longer", 0.4, 3)):
                accuracy = 0.2 + pace * step / 100
                length = 40 - 20 * accuracy + shift
                rows.append(f"t,{method},{seed},,{step},{accuracy},{length},{1 - accuracy}")
    small("curves.csv.gz", rows)
    slow, longer = equal_accuracy.table("small", "grpo", "slow", "longer").splitlines()[2:]
    # The last 15 steps have their mean at step 52: .72 and .408, which GRPO passes at step 21.
    assert slow.startswith("| t | `slow` | 2 | -0.312 (-0.312 to -0.312) | +6.2 (+6.2 to +6.2) |")
    assert slow.endswith("| 60 / 29 |")
    assert "| +0.0 (+0.0 to +0.0) | +0.312 (" in slow and "| +0.002 (" in slow
    assert "| +9.2 (" in longer and "| +3.0 (+3.0 to +3.0) |" in longer


def test_a_lead_is_taken_by_pairs_in_windows(small):
    """Ahead by .1 in the first two steps of five and by .2 in the next two; the fifth is left out.
    Seed 9 has no pair."""
    rows = ["task,method,seed,base_model,step,accuracy"]
    for seed, base in ((1, 0.2), (2, 0.4), (3, 0.3)):
        for step in (1, 2, 3, 4, 5):
            rows.append(f"t,grpo,{seed},,{step},{base}")
            rows.append(f"t,new,{seed},,{step},{base + (0.1 if step < 3 else 0.2)}")
    rows += [f"t,new,9,,{step},.9" for step in (1, 2, 3, 4, 5)]
    small("curves.csv.gz", rows)
    first, second = run_curves.leads("small", "grpo", "accuracy", "2", "new").splitlines()[2:]
    assert first.startswith("| t | 1 to 2 | 0.300 | +0.100 (")
    assert second.startswith("| t | 3 to 4 | 0.300 | +0.200 (")


def test_a_fall_is_from_the_last_steps_to_the_end(small):
    """The last fifteen training steps have .5: .44 at the end is one, .46 is none. `a` has one on
    sums; `b` has none, and no row. A run that has not finished is none."""
    ends = {("a", "sums"): (".44", ".46"), ("a", "lists"): (".5", ".9"), ("b", "sums"): (".46",)}
    ended = ["task,method,seed,base_model,state,outcome.sampled_accuracy", "sums,a,7,,failed,"]
    curves = ["task,method,seed,base_model,step,accuracy"]
    for (method, task), found in ends.items():
        for seed, end in enumerate(found):
            ended.append(f"{task},{method},{seed},,finished,{end}")
            for step in range(1, 21):
                curves.append(f"{task},{method},{seed},,{step},{'.5' if step > 5 else '.9'}")
    small("runs.csv", ended)
    small("curves.csv.gz", curves)
    assert runs.falls("small").splitlines()[2:] == ["| small | `a` | 1 of 2 | 0 of 2 |"]
