"""The page in a real browser: every view opened, hovered, clicked and filtered."""

import re

import numpy as np
import pytest
import scipy.stats
from dumps import ROLLOUTS, move
from saved_outputs import write_lines

from ktae.report import believing, inputs, scoring
from ktae.report.frame import frame_of
from ktae.report.page import write_report
from ktae.report.units import cells

VIEWS = ("overview", "rollouts", "tokens", "training")


@pytest.fixture(scope="session")
def run_page(run_folder, tmp_path_factory):
    out = tmp_path_factory.mktemp("page") / "run.html"
    write_report(run_folder, out)
    return out


@pytest.fixture
def plain_page(tmp_path):
    """Of one mixed group and one that is all incorrect."""
    other = [{"group": "hard", "response": f"no idea {i}", "reward": 0} for i in range(2)]
    path = write_lines(tmp_path / "rollouts.jsonl", ROLLOUTS + other)
    write_report(path, tmp_path / "plain.html", estimator="paper")
    return tmp_path / "plain.html"


def test_the_card_s_table_and_credit_are_those_of_the_data(run_folder, run_page, open_page):
    """Of every token: the unit's counts, as the cells have them, and the estimator's credit."""
    page = open_page(run_page)
    shown = page.evaluate(
        """() => ktae.report.rollouts.length.map((n, r) => Array.from({ length: n }, (_, t) => {
             const [unit] = ktae.unitsAt(r, t);
             return [ktae.creditAt(r, t), unit?.a ?? 0, unit?.nCorrect ?? 0, unit?.p ?? 1]; }))"""
    )
    frame = frame_of(inputs.load([run_folder]))
    choice = believing.choose(frame)
    scored = scoring.score(frame, choice.estimator)
    tables, (number_n, *_) = cells(scored.units)
    numbers = np.where(number_n[:, None], tables[number_n - 1][:, [1, 2, 5]], [0, 0, 1])
    flat = np.array([token for rollout in shown for token in rollout])
    np.testing.assert_allclose(flat[:, 1:], numbers, rtol=1e-5)
    largest = np.abs(scored.credit_n).max()
    np.testing.assert_allclose(flat[:, 0], scored.credit_n, atol=largest / 126)
    assert (flat[:, 2] > 0).sum() > 100


def test_rollouts_hover_and_pin(plain_page, open_page):
    page = open_page(plain_page, "view=rollouts&group=2")
    assert page.locator(".side").nth(0).locator(".rollout").count() == 2
    maybe = page.locator(".t", has_text="maybe").first
    maybe.hover()
    card = page.locator("#card")
    assert "0 of 2 correct and 2 of 2 incorrect" in card.inner_text()
    # [[0, 2], [2, 0]]: one of six tables, and its mirror: p = 1/3.
    assert "0.333" in card.inner_text()
    assert card.locator(".contingency td.cell b").all_inner_texts() == ["0", "2", "2", "0"]
    maybe.click()
    page.locator(".t", has_text="answer").first.hover()
    assert "maybe" in card.locator(".token").inner_text()  # pinned
    page.keyboard.press("Escape")
    assert "Point at a piece" in card.inner_text()


def test_keys_and_links_lead_back(run_page, open_page):
    page = open_page(run_page, "view=rollouts&group=6&rollout=3&token=4&signal=advantage")
    card = page.locator("#card").inner_text()
    assert "token 4 of" in card and "response 3" in card and "credit of backoff" in card
    assert page.input_value("#signal") == "advantage"
    again = open_page(run_page, page.url.partition("#")[2])
    assert again.locator("#card").inner_text() == card
    for key, view in zip("1342", (VIEWS[0], *VIEWS[2:], VIEWS[1]), strict=True):
        page.keyboard.press(key)
        assert page.get_attribute("body", "data-view") == view
    page.keyboard.press("]")
    assert "group=6&" not in page.url
    page.locator(".tokens").first.focus()
    page.keyboard.press("End")
    assert "<eos>" in page.locator(".active").inner_text()
    page.keyboard.press("Enter")
    assert "token=" in page.url
    page.go_back()
    move(page, "view=nope&group=-1&rollout=99&id=abc&%%%")
    assert page.locator("main .pane").count() >= 1


def test_tokens_and_groups_lead_to_rollouts(plain_page, open_page):
    page = open_page(plain_page, "view=tokens")
    page.fill("input[type=search]", "maybe")
    page.locator(".scroller tbody a").first.click()
    contexts = page.locator("#contexts").inner_text()
    assert "Correct: 0 responses" in contexts and "Incorrect: 2 responses" in contexts
    page.locator("#contexts a").first.click()
    page.wait_for_selector("#card.open")
    assert "maybe" in page.locator("#card .token").inner_text()
    page.click("#to-overview")
    assert page.locator(".tile b").all_inner_texts() == ["6", "2", "33.3 %", "1"]
    page.locator("a.strong[href*='finding=overwritten']").click()
    assert "4" in page.locator("#card .token").inner_text()
    assert page.locator(".why").count() >= 1


def test_search_and_filters_are_in_the_address(plain_page, open_page):
    page = open_page(plain_page, "view=rollouts")
    page.fill("#search", "Hmm Wait")
    page.press("#search", "Enter")
    assert page.locator("[role=status]").inner_text() == "1 response in 1 group"
    assert page.locator(".t.hit").all_inner_texts() == ["hmm", " ", "wait"]
    assert page.locator("#hits").inner_text() == "1 of 1 hit in this group"
    page.select_option("#filter-outcome", "correct")
    assert page.locator(".empty").count() == 1
    again = open_page(plain_page, "view=rollouts&q=hmm+wait")  # as somebody would write it
    assert again.locator("#hits").inner_text() == "1 of 1 hit in this group"
    again = open_page(plain_page, page.url.partition("#")[2])
    assert again.locator("[role=status]").inner_text() == "0 responses in 0 groups"
    again.get_by_text("clear all").click()
    assert again.locator("[role=status]").inner_text() == "2 groups"
    again.click("#to-overview")
    again.locator("[aria-label='by accuracy'] a").first.click()
    assert "accuracy=" in again.url
    # The list is filled with the next frame.
    again.wait_for_selector(".group-items a", state="attached")
    assert again.locator(".group-items a").count() == 1


def test_two_runs_are_compared_by_prompt(tmp_path, open_page):
    rng = np.random.default_rng(0)
    right = rng.integers(0, 5, (2, 7))  # of four rollouts of each of seven prompts
    paths = [
        write_lines(
            tmp_path / f"{run}.jsonl",
            [
                {"group": g, "prompt": f"{g}?", "response": "x " * int(4 + g * k), "reward": i < n}
                for g, n in enumerate(right[k].tolist())
                for i in range(4)
            ],
        )
        for k, run in enumerate("ab")
    ]
    write_report(paths, tmp_path / "r.html")
    page = open_page(tmp_path / "r.html", "view=compare")
    change = (right[1] - right[0]) / 4
    (comparison,) = page.evaluate("ktae.report.comparisons")
    low, high = (100 * x for x in scipy.stats.ttest_1samp(change, 0).confidence_interval(0.95))
    cell = page.locator(".numbers td").nth(3).inner_text().replace("\u2212", "-")
    assert f"{100 * change.mean():+.1f} points (95 % interval {low:+.1f} to {high:+.1f})" in cell
    assert (comparison["n_won"], comparison["n_lost"]) == ((change > 0).sum(), (change < 0).sum())
    won, lost = page.locator(".side").all()
    assert won.locator("li").count() == (change > 0).sum()
    assert lost.locator("li").count() == (change < 0).sum()


def test_steps_with_the_same_prompts_are_compared(page_of):
    """Those without prompts in common are not offered, and the largest change is opened."""
    rows = [
        {"group": g, "prompt": f"{g}?", "step": step, "response": f"{i}", "reward": int(i < n)}
        for step, n in ((1, 1), (2, 1), (5, 3))
        for g in range(6)
        for i in range(4)
    ]
    rows += [{**ROLLOUTS[0], "prompt": f"another {s}?", "group": s, "step": s} for s in (3, 4)]
    page = page_of(rows, "view=compare")
    options = page.locator("select[aria-label='Which two'] option").all_inner_texts()
    assert options == ["step 1 → step 2", "step 1 → step 5"]
    assert page.locator("select[aria-label='Which two']").input_value() == "1"


def test_a_conversation_is_folded_and_unfolded_where_a_link_leads(tmp_path, open_page, page_of):
    """Thoughts, calls of tools and what others wrote."""
    thought = "<think>" + "well, 2 and 2 are 4. " * 50 + "</think>"
    text = thought + "<tool_call>add(2, 2)</tool_call> so the answer is 5"
    rows = [
        {"group": 0, "answer": "4", "response": text, "reward": 0},
        {"group": 0, "answer": "4", "response": "the answer is 4", "reward": 1},
    ]
    page = page_of(rows)
    folds = page.locator(".segment details")
    names = page.locator(".segment .who").all_text_contents()
    assert names == ["Thought", "Tool call", "Assistant"]
    assert folds.evaluate_all("all => all.map((x) => x.open)") == [False, False]
    move(page, "view=rollouts&group=1&rollout=1&token=9")
    assert page.locator(".segment details[open] .active").count() == 1
    page = open_page(tmp_path / "r.html", "view=rollouts&group=1")
    page.locator("#search").press_sequentially("2 are 4")
    page.wait_for_url(re.compile(r"q=2\+are\+4"))  # it searches while one types
    assert page.locator(".segment details[open] .active").count() == 1
    page.keyboard.press("Enter")
    assert page.locator("#hits").inner_text() == "2 of 50 hits in this group"


def test_a_picture_of_a_group_is_a_file_of_its_own(plain_page, open_page):
    page = open_page(plain_page, "view=rollouts")
    with page.expect_download() as download:
        page.click(".picture")
    text = download.value.path().read_text(encoding="utf-8")
    assert text.startswith("<svg") and "maybe" in text and "<rect" in text
    assert download.value.suggested_filename == "2-2_Credit-of-paper.svg"


def test_training_view(run_page, open_page):
    page = open_page(run_page, "view=training")
    captions = page.locator(".charts figcaption").all_inner_texts()
    assert captions == ["accuracy", "response length", "reward"]
    assert page.locator("figure .curve").count() >= len(captions)
    assert page.locator("figure svg title").first.text_content().startswith("step 1: ")


def test_nothing_is_wider_than_the_page(run_page, open_page):
    for width in (380, 2560):
        page = open_page(run_page, "view=rollouts&rollout=1&token=1", width=width)
        for view in VIEWS:
            move(page, f"view={view}")
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), view


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(run_page, open_page, axe, scheme):
    page = open_page(run_page, "view=rollouts&rollout=1&token=3", scheme=scheme)
    page.evaluate(axe)
    for view in VIEWS:
        page.click(f"#to-{view}")
        violations = page.evaluate(
            "axe.run().then((r) => r.violations.map((v) => [v.id, v.help, v.nodes[0].html]))"
        )
        assert violations == []
