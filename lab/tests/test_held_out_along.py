"""Held-out pairs of what runs were trained on, some steps at a time."""

import sys

import pyarrow as pa
import pytest

from ktae.rollouts import record
from ktae.runs import RunFolder
from ktae_lab import held_out_along
from ktae_lab.csv_files import read_table

RIGHT, WRONG = 7, 8


def write_run(folder, told_apart):
    """A run of as many steps as `told_apart` has, one group each: whether a token gives the correct
    rollouts away, or None where all rollouts are alike."""
    run = RunFolder(folder)
    run.rollouts.mkdir(parents=True)
    for step, by_token in enumerate(told_apart, start=1):
        rows = []
        for n in range(8):
            correct = n < 4
            token = (RIGHT if correct else WRONG) if by_token else RIGHT
            ids = [1] if by_token is None else [token, 100 + n]
            rows.append({
                "group": "0", "step": step, "token_ids": ids, "correct": float(correct),
                "reward": float(correct), "response": str(n),
            })  # fmt: skip
        run.write_rollouts(step, record.conform(pa.Table.from_pylist(rows, schema=record.SCHEMA)))
    (folder / "summary.json").write_text("{}")


def test_steps_of_all_runs_count_together(tmp_path, monkeypatch):
    write_run(tmp_path / "runs/seed1", [True] * 10 + [False] * 3)
    write_run(tmp_path / "runs/seed2", [True] * 4 + [None] * 6 + [False] * 3)
    path = tmp_path / "held_out.csv"
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "runs"), "--csv", str(path)])
    held_out_along.main()
    by_key = {(row["steps"], row["estimator"]): row for row in read_table(path).to_dict("records")}
    assert {steps for steps, _ in by_key} == {"1 to 10", "11 to 13"}
    first, second = by_key["1 to 10", "paper"], by_key["11 to 13", "paper"]
    assert (first["groups"], second["groups"]) == (14, 6), "equal rollouts do not count"
    assert float(first["auc"]) == 1
    assert float(second["auc"]) == 0.5
    assert by_key["1 to 10", "shorter"]["auc"] == 0.5


def test_steps_without_a_group_have_no_row(tmp_path, capsys):
    write_run(tmp_path / "seed1", [None] * 10 + [True])
    rows = list(held_out_along.along([tmp_path / "seed1"], ["paper"]))
    assert {row["steps"] for row in rows} == {"11 to 11"}
    assert "steps 1 to 10: " in capsys.readouterr().out


def test_runs_without_rollouts_are_left_out(tmp_path, monkeypatch, capsys):
    path = tmp_path / "held_out.csv"
    monkeypatch.setattr(sys, "argv", ["", str(tmp_path / "runs"), "--csv", str(path)])
    without = tmp_path / "runs/seed1"
    without.mkdir(parents=True)
    (without / "summary.json").write_text("{}")
    with pytest.raises(SystemExit, match=r"no finished run with rollouts under .* 1 without"):
        held_out_along.main()
    write_run(tmp_path / "runs/seed2", [True])
    held_out_along.main()
    assert "1 runs; 1 more have no rollouts" in capsys.readouterr().out
    by_name = {row["estimator"]: row for row in read_table(path).to_dict("records")}
    assert by_name["paper"]["groups"] == 1
    assert "majority" in by_name, "responses that are only a number have an answer"
