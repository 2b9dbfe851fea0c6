"""How far to believe the numbers: what stands on the first page, and what is shaded."""

import json
import zlib
from base64 import b64decode

import numpy as np
import pytest
from dumps import token_totals, write_lines

from ktae.estimators import KTAE, preset
from ktae.inference import n_discoveries
from ktae.report import believing, inputs, summary, write_report
from ktae.report.columns import columns_of
from ktae.report.contents import contents, files_of
from ktae.report.scoring import as_columns, score, strongest
from ktae.tables import table_estimator
from ktae.validity.advice import advice
from ktae.validity.held_out import held_out_pairs
from ktae.validity.mean_credit import mean_abs_credit
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


def meta_of(dump, **options):
    return json.loads(zlib.decompress(b64decode(contents(dump, **options).blocks["meta"]), -15))


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
    names = [
        entry["name"] for entry in meta_of(dump, estimator=KTAE(h3=0))["held_out"]["estimators"]
    ]
    assert names == ["chosen", *believing.BESIDE]
    names = [
        entry["name"] for entry in meta_of(dump, estimator="trigrams")["held_out"]["estimators"]
    ]
    assert names == list(believing.BESIDE)


def test_an_estimator_without_tables_is_held_out_and_the_papers_is_explained(tmp_path):
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", random_rows(4))])
    meta = meta_of(dump, estimator="tempo")
    names = [entry["name"] for entry in meta["held_out"]["estimators"]]
    assert names == ["chosen", *believing.BESIDE]
    assert meta["presets"][0]["name"] == "paper"
    assert any("Tempo()" in note["text"] for note in meta["notes"])
    names = [
        entry["name"]
        for entry in meta_of(dump, estimator="entropy-weights")["held_out"]["estimators"]
    ]
    assert names == list(believing.BESIDE), "a dump holds no entropies"


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
    columns = columns_of(dump)
    scored = summary.score(columns, preset("paper"))
    total, tokens = scored.credit_abs_b.sum(), scored.compared_b.sum()
    assert tokens == 8 * 6 * 9
    of_record = permutation_test(dump.rollouts, permutations=1).real.credit_abs
    assert mean_abs_credit(total, tokens) == pytest.approx(of_record, rel=1e-6)
    meta = meta_of(dump)
    of_groups = meta["groups"]["credit_abs"][0]
    assert of_groups[8] is None  # not mixed
    assert np.mean(of_groups[:8]) == pytest.approx(of_record, rel=1e-4)  # all of 54 tokens
    (of_steps,) = [x["values"] for x in meta["training"]["series"] if x["name"] == "mean |credit|"]
    assert np.mean(of_steps) == pytest.approx(of_record, rel=1e-4)
    assert of_steps[0] == pytest.approx(np.mean(of_groups[:8:2]), rel=1e-4)
    assert meta["permuted"]["presets"][0]["credit_abs"]["real"] == pytest.approx(
        of_record, rel=1e-4
    )


def test_a_mean_goes_over_the_groups_that_are_counted(tmp_path):
    """The token 1: in all rollouts of the first group, so no evidence; in the correct one of the
    second and third."""
    rows = [
        {"group": group, "token_ids": ids, "reward": reward}
        for group, ids, reward in (
            *[(0, [1], 1), (0, [1], 0)],
            *[(1, [1, 2], 1), (1, [2], 0)],
            *[(2, [1], 1), (2, [2], 0)],
        )
    ]
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    tokens = score(dump.rollouts).tokens
    totals = token_totals(as_columns(tokens), dump.token_ids)
    (token,) = strongest(tokens).supporting
    assert (token.token_id, token.groups, token.a, token.n_true) == (1, 2, 3, 3)
    assert totals.groups.tolist() == [2, 1]
    credit = tokens["credit"].to_numpy()[[1, 3]]
    assert totals.credit[0] == pytest.approx(np.mean(credit)) == pytest.approx(token.credit)
    assert totals.impact[0] == pytest.approx(np.sum(credit) / 2)  # |a - E| = 1/2 in both


def test_p_over_groups(tmp_path):
    """Two groups in which all of 5 correct and none of 5 incorrect rollouts have the token 1."""
    rows = [
        {"group": group, "token_ids": [1 if i < 5 else 2, *[3] * (1 + i)], "reward": int(i < 5)}
        for group in range(2)
        for i in range(10)
    ]
    dump = inputs.load([write_lines(tmp_path / "r.jsonl", rows)])
    totals = token_totals(as_columns(score(dump.rollouts).tokens), dump.token_ids)
    # (5 - 1 / 2)² / (2 · 625 / 900) = 14.58, chi-squared with one degree of freedom
    assert totals.p[:3] == pytest.approx([1.343e-4, 1.343e-4, 1.0], rel=1e-3)


def test_what_chance_explains_is_faint(tmp_path, open_page):
    write_report(write_lines(tmp_path / "r.jsonl", SPLIT), tmp_path / "r.html")
    page = open_page(tmp_path / "r.html", "view=rollouts&group=0")

    def full():
        spans = page.locator(".t:is([class*=' p'], [class*=' n']):not(.p0):not(.n0)")
        return set(spans.all_inner_texts()) - {" "}

    def shade(name):
        page.select_option("#shade", name)
        page.wait_for_selector(".t")

    strong = {"rule", "by", "find", "it", "we", "stop", "a", "guess"}
    assert full() == strong  # 5 of 5 against 0 of 5; "and" is in 5 against 3
    assert page.locator(".t.p0, .t.n0").count() > 0
    shade("all")
    assert page.locator(".t.p0, .t.n0").count() == 0
    assert {"goes", "and"} <= full()
    shade("q")
    p, n = page.evaluate(
        """() => { const group = ktae.groupStatistics(0, 0), ranks = [...group.counts.keys()];
             return [ranks.map(group.pOf), full_n = ranks.length]; }""".replace("full_n = ", "")
    )
    assert n_discoveries(np.array(p), np.ones(n, dtype=int), 0.05) == len(strong)
    assert full() == strong
    assert "shade=q" in page.url
    page.locator(".t", has_text="goes").first.hover()
    assert "common by chance" in page.locator("#card").inner_text()


def test_sharp_numbers_are_the_estimators(tmp_path, open_page):
    rows = [row | {"reward": int(i < 3)} for i, row in enumerate(SPLIT)]
    path = write_lines(tmp_path / "r.jsonl", rows)
    write_report(path, tmp_path / "r.html", estimator="sharp-trigrams")
    page = open_page(tmp_path / "r.html", "view=rollouts&group=0")
    points = page.evaluate(
        """() => { const group = ktae.groupStatistics(0, 0);
             return [...group.counts.keys()].map((r) => [ktae.report.vocabulary.id[r],
               group.of(r).credit, group.of(r).direction, group.of(r).value]); }"""
    )
    dump = inputs.load([path])
    of_tokens = table_estimator("sharp-trigrams")
    table = summary.score(columns_of(dump), of_tokens).tables[0]
    names = ("token_id", "credit", "direction", "value")
    expected = sorted(zip(*(table[name] for name in names), strict=True))
    np.testing.assert_allclose(sorted(points), expected, atol=1e-12)
    assert np.ptp([credit for _, credit, *_ in points]) > 0.1
    page.locator(".t", has_text="rule").first.hover()
    assert "sharpened" in page.locator("#card").inner_text()


def test_a_view_of_finished_rollouts_only(tmp_path, open_page):
    rows = [row | {"finished": "end" in row["response"]} for row in SPLIT]
    write_report(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "r.html")
    page = open_page(tmp_path / "r.html", "view=rollouts&group=0")
    assert page.locator(".rollout").count() == 10
    assert "3 of 10 rollouts" in page.locator("#believe").inner_text()
    page.check("input[aria-label='Finished rollouts only']")
    assert page.locator(".rollout").count() == 7
    page.locator(".t", has_text="guess").first.click()
    card = page.locator("#card").inner_text()
    assert "0 of 5 correct and 2 of 2 incorrect" in card
    again = open_page(tmp_path / "r.html", page.url.partition("#")[2])
    assert again.locator("#card").inner_text() == card


def test_marks_are_tagged(tmp_path, open_page):
    rows = [
        {"group": 0, "response": f"so \\boxed{{{i}}} is {i}", "reward": int(i < 2)}
        for i in range(4)
    ] + [{"group": 0, "response": "and so on", "reward": 0}]
    write_report(write_lines(tmp_path / "r.jsonl", rows), tmp_path / "r.html")
    page = open_page(tmp_path / "r.html", "view=rollouts&group=0")
    assert set(page.locator(".t.mark").all_inner_texts()) == {"boxed"}
    page.locator(".t.mark").first.hover()
    assert page.locator("#card .flag").inner_text() == "format"
    page.click("#to-tokens")
    page.fill("input[type=search]", "boxed")
    assert page.locator(".scroller .token-cell .flag").inner_text() == "format"


@pytest.mark.parametrize(
    ("labels", "names", "files", "short"),
    [
        (["a/x.jsonl:7", "a/y.jsonl:7"], ["a/x.jsonl", "a/y.jsonl"], ["x.jsonl", "y.jsonl"], "7"),
        (["a:1.jsonl:7", "b:7"], ["a", "b"], ["a/1.jsonl", "b"], "7"),
        (["1.jsonl:7", "2.jsonl:7"], ["a"], ["1.jsonl", "2.jsonl"], "7"),
        (["a.jsonl:7", "sub/b.jsonl:7"], ["d"], ["a.jsonl", "sub/b.jsonl"], "7"),
        (["1.pt:7", "2.pt:7"], ["run.v2"], ["1.pt", "2.pt"], "7"),
        (["test.json:1"], ["a.jsonl"], [], "test.json:1"),
        (["is it 7:30?"], ["a.jsonl"], [], "is it 7:30?"),
        (["x.jsonl:7"], [], [], "x.jsonl:7"),
    ],
)
def test_files_of_labels(labels, names, files, short):
    shown = files_of(labels, names)
    assert shown["files"] == files
    assert set(shown["label"]) == {short}
    assert shown["file"] == ([0, 1] if files else [-1])
