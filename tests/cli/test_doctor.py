"""`ktae doctor` says what works, and finds what does not."""

import json
import subprocess
import sys

import numpy as np
import pytest
from extras import require
from typer.testing import CliRunner

from ktae.cli import app
from ktae.counting import compiled
from ktae.trainers import doctor


def findings(output):
    return {finding["subject"]: finding for finding in json.loads(output)["findings"]}


@pytest.mark.nightly  # it trains for each loss
def test_this_installation_is_right():
    done = subprocess.run(
        [sys.executable, "-m", "ktae", "doctor", "--json"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    found = findings(done.stdout)
    assert found["backend cpu"]["status"] == found["backend torch"]["status"] == "ok"
    require("trl")
    for loss in ("grpo", "dapo", "dr_grpo", "vespo"):
        assert found[f"TRL, loss {loss}"]["status"] == "ok"
    for finding in found.values():
        assert finding["status"] != "absent" or finding["remedy"]


@pytest.fixture
def no_trl(monkeypatch):
    """Training steps take seconds, and are not what these tests are about."""
    monkeypatch.setattr(doctor, "trl_findings", lambda: iter(()))


def test_wrong_numbers_are_found(monkeypatch, no_trl):
    credit = compiled.credit
    monkeypatch.setattr(
        compiled, "credit", lambda *x, **more: credit(*x, **more) + np.float32(1e-4)
    )
    done = CliRunner().invoke(app, ["doctor", "--json"])
    assert done.exit_code == 1
    assert findings(done.output)["backend cpu"]["status"] == "wrong"


def test_what_is_absent_comes_with_a_remedy(monkeypatch, no_trl):
    monkeypatch.setitem(doctor.EXTRAS, "report", ("no-such-package",))
    done = CliRunner().invoke(app, ["doctor", "--json"])
    assert done.exit_code == 0
    assert findings(done.output)["extra report"]["remedy"] == "pip install 'ktae[report]'"


def test_a_training_step_that_fails_is_a_finding(monkeypatch):
    require("trl")
    from ktae.trainers.trl import gradient_check

    def gradient_error(loss_type):
        if loss_type == "bnpo":
            raise AttributeError("GRPOTrainer has no\nsuch method")
        return {"grpo": 1e-3, "dapo": float("nan")}[loss_type]

    monkeypatch.setattr(gradient_check, "WEIGHTS", dict.fromkeys(["grpo", "dapo", "bnpo"]))
    monkeypatch.setattr(gradient_check, "gradient_error", gradient_error)
    grpo, dapo, bnpo = doctor.trl_findings()
    assert grpo.status == dapo.status == bnpo.status == "wrong"
    assert "1.0e-03" in grpo.detail and "\n" not in bnpo.detail


def test_verl_s_smallest_job(monkeypatch):
    """The advantages of verl's own function; credit that does not arrive is found."""
    require("verl")
    from ktae.trainers.verl import smoke

    done = CliRunner().invoke(app, ["doctor", "--engine", "verl", "--json"])
    assert done.exit_code == 0 and findings(done.output)["verl"]["status"] == "ok"
    assert all(x["remedy"] for x in findings(done.output).values() if x["status"] == "absent")
    twice = smoke.naive.credit
    monkeypatch.setattr(smoke.naive, "credit", lambda *arguments: 2 * twice(*arguments))
    assert smoke.advantage_error() > 0.05
