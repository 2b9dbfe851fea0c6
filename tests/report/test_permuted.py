"""The permutation test, on the page."""

import json

import numpy as np
import pytest
from dumps import ROLLOUTS, write_lines

from ktae.estimators import KTAE, Ignoring, preset
from ktae.report import believing, inputs, summary, write_report
from ktae.report.columns import columns_of
from ktae.validity.permutation import permutation_test

PAPER = (preset("paper"),)


def beside(rows, tmp_path, presets=PAPER):
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    columns = columns_of(dump)
    scored = summary.score(columns, presets[0])
    mixed_g = (scored.n_true_g > 0) & (scored.n_false_g > 0)
    return dump, believing.beside_permuted(columns, mixed_g, list(presets))


def random_rows(groups, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "group": group,
            "token_ids": rng.integers(0, 40, 9).tolist(),
            "reward": int(number % 3 > 0),
        }
        for group in range(groups)
        for number in range(6)
    ]


def test_numbers_are_those_of_null(tmp_path):
    presets = (preset("paper"), preset("released"))
    dump, found = beside(random_rows(7), tmp_path, presets)
    assert (found["groups"], found["mixed"], found["permutations"]) == (7, 7, 5)
    for numbers, estimator in zip(found["presets"], presets, strict=True):
        expected = permutation_test(dump.rollouts, estimator, permutations=5)
        assert numbers["pairs"] == expected.pairs
        for name in ("credit_abs", "saturated", "no_evidence", "significant", "discoveries"):
            values = [getattr(one, name) for one in expected.permuted]
            assert numbers[name] == pytest.approx(
                {
                    "real": getattr(expected.real, name),
                    "mean": np.mean(values),
                    "low": min(values),
                    "high": max(values),
                }
            )


def test_of_many_groups_some_are_taken(tmp_path, monkeypatch):
    monkeypatch.setattr(believing, "MAX_PERMUTED", 3)
    _, found = beside(random_rows(8), tmp_path)
    assert (found["groups"], found["mixed"]) == (3, 8)
    monkeypatch.setattr(believing, "MAX_TOKENS", 2 * 6 * 9)
    _, found = beside(random_rows(8), tmp_path)
    assert (found["groups"], found["mixed"]) == (2, 8)


def test_nothing_without_a_mixed_group(tmp_path):
    assert beside([row | {"reward": 1} for row in ROLLOUTS], tmp_path)[1] is None
    assert beside([row | {"group": n} for n, row in enumerate(ROLLOUTS)], tmp_path)[1] is None


def test_a_preset_that_ignores_every_token_has_no_numbers(tmp_path):
    presets = (preset("paper"), Ignoring(KTAE(), range(40)))
    _, found = beside(random_rows(2), tmp_path, presets)
    assert found["presets"][0] is not None and found["presets"][1] is None


def test_the_groups_view_shows_them(tmp_path, open_page):
    path = write_lines(tmp_path / "r.jsonl", random_rows(7))
    write_report(path, tmp_path / "r.html")
    page = open_page(tmp_path / "r.html", "view=groups")
    pane = page.locator("section[aria-label='Beside permuted labels']")
    assert "permuted within each group, 5 times" in pane.inner_text()
    assert "all mixed groups" in pane.inner_text()
    expected = permutation_test(inputs.load([path]).rollouts, permutations=5)
    mean = np.mean([one.credit_abs for one in expected.permuted])
    row = pane.locator("tbody tr").first.inner_text().split()
    assert f"{expected.real.credit_abs:.3f}" in row and f"{mean:.3f}" in row
    assert f"with permuted labels {mean:.3f}" in page.locator(".facts-row").inner_text()
    paper = pane.inner_text()
    page.select_option("#preset", "1")
    assert pane.inner_text() != paper


def test_the_groups_view_without_them(tmp_path, open_page):
    rows = [row | {"reward": 1} for row in ROLLOUTS]
    write_report(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "r.html")
    page = open_page(tmp_path / "r.html", "view=groups")
    assert page.locator("section[aria-label='Beside permuted labels']").count() == 0
    assert "null" not in page.locator("main").inner_text()
    assert json.loads(page.evaluate("JSON.stringify(ktae.report.permuted)")) is None
