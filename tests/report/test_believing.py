"""How far to believe the numbers: what stands on the first page, and what is shaded."""

import json

import numpy as np
import pytest
import scipy.stats
from dumps import meta_of, unpack
from saved_outputs import write_lines

from ktae.estimators import KTAE, preset
from ktae.inference import n_discoveries
from ktae.report import believing, inputs, write_report
from ktae.report.contents import contents, files_of
from ktae.report.scoring import score
from ktae.report.strongest import p_over_groups, strongest
from ktae.validity.advice import advice
from ktae.validity.held_out import held_out_pairs
from ktae.validity.permutation import permutation_test

TEXTS = (
    *[f"by rule {i} we find it and stop <end>" for i in range(5)],
    *[f"a guess {i} that goes on and" for i in range(3)],
    *[f"a guess {i} is all <end>" for i in range(2)],
)
SPLIT = [{"group": "g", "response": text, "reward": int(i < 5)} for i, text in enumerate(TEXTS)]
"""Five correct rollouts with "rule", five incorrect ones with "guess": p = 1/126."""


def random_rows(groups, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {
            "group": group,
            "token_ids": rng.integers(0, 40, 9).tolist(),
            "reward": int(number % 3 > 0),
            "step": group % 2,
        }
        for group in range(groups)
        for number in range(6)
    ]


def test_held_out_pairs_are_those_of_validate(tmp_path):
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", random_rows(9))])
    shown = meta_of(dump)["held_out"]
    expected = held_out_pairs(dump.rollouts, {name: preset(name) for name in believing.BESIDE})
    assert [entry["name"] for entry in shown["estimators"]] == list(believing.BESIDE)
    for entry, estimate in zip(shown["estimators"], expected.estimators, strict=True):
        assert entry["auc"] == pytest.approx(estimate.auc.value, rel=1e-5)
    assert [entry["name"] for entry in shown["baselines"]] == ["shorter"]
    advised = advice(expected)
    assert (shown["take"], shown["lines"]) == (advised.take, advised.lines)


def test_the_reports_own_estimator_stands_beside_the_presets(tmp_path):
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", random_rows(4))])

    def names(estimator):
        meta = meta_of(dump, estimator=estimator)
        return [entry["name"] for entry in meta["held_out"]["estimators"]]

    assert names(KTAE(h3=0))[1:] == list(believing.BESIDE)
    assert names("trigrams") == list(believing.BESIDE)
    assert names("tempo") == ["tempo", *believing.BESIDE]
    assert names("entropy-weights") == list(believing.BESIDE), "a dump holds no entropies"


def by_length(token_ids, mask, correct, groups):
    return np.cumsum(mask, axis=1) * (2.0 * correct[:, None] - 1)


@pytest.mark.parametrize(
    "estimator",
    [
        *["sharp-trigrams", "tempo"],
        {"estimator": "presence-z", "transforms": [{"over-units": "word"}, {"scaled": 2}]},
        {"estimator": "ktae", "transforms": [{"ignoring": [1, 2]}, {"over-units": ["bigram"]}]},
        pytest.param(by_length, id="by_length"),
    ],
    ids=str,
)
def test_the_credit_shown_is_that_of_the_estimator_named(estimator, tmp_path, open_page):
    """Of each token, whatever the estimator rests on, as `ktae score` and a trainer have it."""
    rows = [
        {"group": group, "response": " ".join(f"w{x}" for x in words), "reward": int(i % 3 > 0)}
        for group in range(2)
        for i, words in enumerate(np.random.default_rng(group).integers(0, 6, (6, 12)).tolist())
    ]
    path = write_lines(tmp_path / "r.jsonl", rows)
    dump = write_report(path, tmp_path / "r.html", estimator=estimator)
    page = open_page(tmp_path / "r.html", "view=rollouts")
    shown = page.evaluate(
        """() => ktae.report.rollouts.length.map((n, r) => Array.from({ length: n }, (_, t) =>
             ktae.creditOf(r, t, ktae.groupStatistics(ktae.report.groupOf[r], 0))))"""
    )
    vocabulary = dump.vocabulary
    expected = score(dump.rollouts, estimator=estimator, texts=vocabulary).record["credit"]
    largest = max(abs(x) for credit in expected.to_pylist() for x in credit)
    assert largest > 0
    for credit, wanted in zip(shown, expected.to_pylist(), strict=True):
        # In steps of 1/127 of the largest where the page holds the credit itself.
        np.testing.assert_allclose(credit, wanted, atol=largest / 250)


def test_held_out_pairs_are_bounded(tmp_path, monkeypatch):
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", random_rows(12))])
    monkeypatch.setattr(believing, "MAX_HELD_OUT", 5)
    assert meta_of(dump)["held_out"]["groups"] == 5
    monkeypatch.setattr(believing, "MAX_TOKENS", 3 * 6 * 9)
    assert meta_of(dump)["held_out"]["groups"] == 3


def test_mean_credit_is_one_number(tmp_path):
    """Of groups, of steps, and beside permuted labels: the same sum over the same tokens."""
    unmixed = [row | {"group": 99, "reward": 1} for row in random_rows(1)]
    unknown = [row | {"reward": None} for row in random_rows(3)[::4]]
    rows = random_rows(8) + unmixed + unknown
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    of_record = permutation_test(dump.rollouts, permutations=1).real.credit_abs
    meta = meta_of(dump)
    of_groups = meta["groups"]["credit_abs"]
    assert of_groups[8] is None  # not mixed
    assert np.mean(of_groups[:8]) == pytest.approx(of_record, rel=1e-4)  # all of 54 tokens
    (of_steps,) = [x["values"] for x in meta["training"]["series"] if x["name"] == "mean |credit|"]
    assert np.mean(of_steps) == pytest.approx(of_record, rel=1e-4)
    assert of_steps[0] == pytest.approx(np.mean(of_groups[:8:2]), rel=1e-4)
    assert meta["permuted"]["credit_abs"]["real"] == pytest.approx(of_record, rel=1e-4)


def test_numbers_beside_permuted_labels_are_those_of_the_test(tmp_path, monkeypatch):
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", random_rows(7))])
    numbers = meta_of(dump)["permuted"]
    expected = permutation_test(dump.rollouts, permutations=5)
    assert (numbers["groups"], numbers["mixed"], numbers["pairs"]) == (7, 7, expected.pairs)
    for name in ("credit_abs", "saturated", "no_evidence", "significant", "discoveries"):
        values = [getattr(test, name) for test in expected.permuted]
        low_mean_high = [numbers[name][key] for key in ("low", "mean", "high")]
        assert low_mean_high == pytest.approx([min(values), np.mean(values), max(values)], rel=1e-5)
    monkeypatch.setattr(believing, "MAX_PERMUTED", 3)
    assert meta_of(dump)["permuted"]["groups"] == 3
    monkeypatch.setattr(believing, "MAX_TOKENS", 2 * 6 * 9)
    assert meta_of(dump)["permuted"]["groups"] == 2


def test_p_over_groups(tmp_path):
    """Two groups in which all of 5 correct and none of 5 incorrect rollouts have the token 1."""
    rows = [
        {"group": group, "token_ids": [1 if i < 5 else 2, *[3] * (1 + i)], "reward": int(i < 5)}
        for group in range(2)
        for i in range(10)
    ]
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    # Exact in few groups: all ten, or none, of two hypergeometric numbers of 1/252 each.
    assert strongest(score(dump.rollouts).tokens).supporting[0].p_value == pytest.approx(2 / 252**2)
    of_page = json.loads(unpack(contents(dump).blocks["vocabulary"]))
    assert dict(zip(of_page["id"], of_page["p"], strict=True))[1] == pytest.approx(2 / 252**2, 1e-5)
    a, b, c, d = np.repeat([[5], [0], [0], [5]], 21, axis=1)
    # In many groups (21 * 2.5 - 1 / 2)² / (21 * 625 / 900), chi-squared of one degree of freedom
    assert p_over_groups(a, b, c, d) == pytest.approx(
        scipy.stats.chi2.sf(52.0**2 / (21 * 625 / 900), 1), rel=1e-3, abs=0
    )


def test_what_chance_explains_is_faint(page_of):
    page = page_of(SPLIT)

    def full():
        spans = page.locator(".t:is([class*=' p'], [class*=' n']):not(.p0):not(.n0)")
        return set(spans.all_inner_texts()) - {" "}

    def shade(name):
        page.evaluate("document.getElementById('menu').open = true")
        page.select_option("#shade", name)
        page.wait_for_selector(".t")

    strong = {"rule", "by", "find", "it", "we", "stop", "a", "guess"}
    assert {*strong, "goes", "and"} <= full()  # all of it; "and" is in 5 against 3
    assert set(page.locator(".t.beyond").all_inner_texts()) - {" "} == strong
    shade("p")
    assert full() == strong  # 5 of 5 against 0 of 5
    assert page.locator(".t.p0, .t.n0").count() > 0
    shade("q")
    p, n = page.evaluate(
        """() => { const group = ktae.groupStatistics(0, 0), ranks = [...group.counts.keys()];
             return [ranks.map(group.pOf), ranks.length]; }"""
    )
    assert n_discoveries(np.array(p), np.ones(n, dtype=int), 0.05) == len(strong)
    assert full() == strong
    assert "shade=q" in page.url
    page.locator(".t", has_text="goes").first.hover()
    assert "common by chance" in page.locator("#card").inner_text()


def test_the_card_shows_the_unit_and_its_table(page_of):
    rows = [row | {"reward": int(i < 3)} for i, row in enumerate(SPLIT)]
    page = page_of(rows, estimator="calibrated")
    page.locator(".t", has_text="rule").first.hover()
    card = page.locator("#card")
    units = card.locator(".units tbody th").all_inner_texts()
    assert units == ["rule", "␣rule"]
    assert "3 of 3 right and 2 of 7 wrong" in card.inner_text()
    assert card.locator(".contingency td.cell b").all_inner_texts() == ["3", "2", "0", "5"]


def test_a_view_of_finished_rollouts_only(tmp_path, open_page, page_of):
    rows = [row | {"finished": "end" in row["response"]} for row in SPLIT]
    page = page_of(rows)
    assert page.locator(".rollout").count() == 10
    page.check("#finished")
    assert page.locator(".rollout").count() == 7
    page.locator(".t", has_text="guess").first.click()
    card = page.locator("#card").inner_text()
    assert "0 of 5 right and 2 of 2 wrong" in card
    again = open_page(tmp_path / "r.html", page.url.partition("#")[2])
    assert again.locator("#card").inner_text() == card


def test_marks_are_tagged(page_of):
    rows = [
        {"group": 0, "response": f"so \\boxed{{{i}}} is {i}", "reward": int(i < 2)}
        for i in range(4)
    ] + [{"group": 0, "response": "and so on", "reward": 0}]
    page = page_of(rows)
    assert set(page.locator(".t.mark").all_inner_texts()) == {"boxed"}
    page.locator(".t.mark").first.hover()
    assert page.locator("#card .flag").inner_text() == "format"


@pytest.mark.parametrize(
    ("labels", "names", "files", "short"),
    [
        (["a/x.jsonl:7", "a/y.jsonl:7"], ["a/x.jsonl", "a/y.jsonl"], ["x.jsonl", "y.jsonl"], "7"),
        (["a.jsonl:7", "sub/b.jsonl:7"], ["d"], ["a.jsonl", "sub/b.jsonl"], "7"),
        (["test.json:1"], ["a.jsonl"], [], "test.json:1"),
    ],
)
def test_files_of_labels(labels, names, files, short):
    shown = files_of(labels, names)
    assert shown["files"] == files
    assert set(shown["label"]) == {short}
    assert shown["file"] == ([0, 1] if files else [-1])
