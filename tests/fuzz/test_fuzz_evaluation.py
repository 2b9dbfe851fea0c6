"""What `ktae eval --regrade`, `ktae compare`, `ktae data prepare` and `--data` read."""

import contextlib
import io
import json

from fuzzing import fuzz, numbers, only_input_errors, row_files, rows, texts, values
from hypothesis import given
from hypothesis import strategies as st

from ktae.cli.eval import print_scores, print_warning
from ktae.cli.printing import Screen
from ktae.experiments import comparison, outputs
from ktae.experiments.scores import score
from ktae.grading import Outcome, Verdict
from ktae.rollouts import record

ANSWERS = (
    texts
    | numbers
    | st.lists(texts | numbers, max_size=3)
    | st.sampled_from(['["1", "2"]', "['1', '2']", "[{[]: 1}]", "[1, 2)", "[" * 300, "x #### 5"])
)
VERDICT = st.fixed_dictionaries(
    {"outcome": st.sampled_from(["correct", "incorrect", "unanswered", "undecided"]) | values},
    optional={"extracted": values, "reason": values, "tokens": values, "finished": values},
)
EXTRA = VERDICT.map(json.dumps) | texts | values
OWN = {
    "group": st.sampled_from(["aime24/0", "own/1", "own/1", "x", 7, "a/b/c"]) | texts,
    "response": st.sampled_from([r"\boxed{1}", r"\boxed{2}"]) | texts,
    "answer": st.sampled_from(["1", "2", 1]) | ANSWERS,
    "reward": st.sampled_from([0, 1, 0.5, None]) | numbers,
    "extra": EXTRA,
}
files = row_files(rows(OWN, ("correct", "acc", "benchmark", "prompt", "uid", "step")))


def graded(saved):
    verdicts = [Verdict(outcome, "5", "some") for outcome in Outcome]
    return outputs.with_verdicts(saved, [verdicts[i % 4] for i in range(len(saved))], "ktae")


@fuzz(80)
@given(file=files)
def test_saved_outputs(file, scratch):
    """Read, scored, printed, and written as a record that can be read again."""
    path = scratch / file[0]
    path.write_bytes(file[1])
    with only_input_errors():
        saved = graded(outputs.read(path))
        again = scratch / "outputs.parquet"
        record.write(outputs.to_record(saved, "model"), again)
        assert outputs.read(again)["response"].to_pylist() == saved["response"].to_pylist()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            print_scores(Screen(), "x", score(saved))
            print_warning(Screen(), saved, "ktae-boxed")
        assert "\x1b" not in printed.getvalue()
        outputs.check_complete(saved, str(path))


@fuzz(60)
@given(file=files, other=files)
def test_two_files_to_compare(file, other, scratch):
    sides = []
    for folder, (name, data) in (("a", file), ("b", other)):
        (scratch / folder).mkdir(exist_ok=True)
        (scratch / folder / name).write_bytes(data)
        sides.append(scratch / folder / name)
    with only_input_errors():
        saved = {x.parent.name: graded(outputs.read(x)) for x in sides}
        for row in comparison.paired_tests(saved, partial=True):
            assert comparison.in_words(row)
            assert 0 <= row.p_value <= row.corrected <= 1
