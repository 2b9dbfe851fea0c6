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


def test_wrong_numbers_are_found_and_what_is_absent_comes_with_a_remedy(monkeypatch):
    credit = compiled.credit

    def slightly_wrong(*args, **kwargs):
        return credit(*args, **kwargs) + np.float32(1e-4)

    monkeypatch.setattr(compiled, "credit", slightly_wrong)
    monkeypatch.setattr(doctor, "trl_findings", lambda: iter(()))  # training steps take seconds
    monkeypatch.setitem(doctor.EXTRAS, "report", ("no-such-package",))
    done = CliRunner().invoke(app, ["doctor"])
    assert done.exit_code == 1 and "1 wrong" in done.output
    assert "WRONG  backend cpu: largest difference to the reference 1.0e-04" in done.output
    assert "pip install 'ktae[report]'" in done.output


def test_verl_s_smallest_job(monkeypatch):
    """The advantages of verl's own function; credit that does not arrive is found."""
    require("verl")
    done = CliRunner().invoke(app, ["doctor", "--engine", "verl", "--json"])
    found = findings(done.output)
    assert done.exit_code == 0 and found["verl"]["status"] == "ok"
    assert all(finding["remedy"] for finding in found.values() if finding["status"] == "absent")
    credit = doctor.naive.credit
    monkeypatch.setattr(doctor.naive, "credit", lambda *arguments: 2 * credit(*arguments))
    verl, *_ = doctor.diagnose_verl()
    assert verl.status == "wrong"
