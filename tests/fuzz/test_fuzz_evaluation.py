"""What `ktae eval --regrade` and `ktae compare` read."""

import contextlib
import io

from fuzzing import fuzz, numbers, only_input_errors, row_files, rows, texts, values
from hypothesis import given
from hypothesis import strategies as st

from ktae.cli.eval import print_scores, print_warning
from ktae.cli.printing import Screen
from ktae.experiments import comparison, outputs
from ktae.experiments.scores import score
from ktae.grading import Outcome, Verdict
from ktae.rollouts import record

OWN = {
    "group": st.sampled_from(["aime24/0", "own/1", "own/1", "x", 7, "a/b/c"]) | texts,
    "response": st.sampled_from([r"\boxed{1}", r"\boxed{2}"]) | texts,
    "answer": st.sampled_from(["1", "2", 1, '["1", "2"]', "[" * 300, "x #### 5"]) | values,
    "reward": st.sampled_from([0, 1, 0.5, None]) | numbers,
    "extra": texts | values,
}
files = row_files(rows(OWN, ("correct", "acc", "benchmark", "prompt", "uid", "step")))


def graded(saved):
    verdicts = [Verdict(outcome, "5", "some") for outcome in Outcome]
    return outputs.with_verdicts(saved, [verdicts[i % 4] for i in range(len(saved))], "ktae")


@fuzz(100)
@given(file=files, other=files)
def test_saved_outputs(file, other, scratch):
    """Read, scored, printed, compared, and written as a record that can be read again."""
    paths = [scratch / folder / name for folder, (name, _) in (("a", file), ("b", other))]
    for path, (_, data) in zip(paths, (file, other), strict=True):
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data)
    with only_input_errors():
        saved = graded(outputs.read(paths[0]))
        again = scratch / "outputs.parquet"
        record.write(outputs.to_record(saved, "model"), again)
        assert outputs.read(again)["response"].to_pylist() == saved["response"].to_pylist()
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            print_scores(Screen(), "x", score(saved))
            print_warning(Screen(), saved, "ktae-boxed")
        assert "\x1b" not in printed.getvalue()
        sides = {"a": saved, "b": graded(outputs.read(paths[1]))}
        for row in comparison.paired_tests(sides, partial=True):
            assert comparison.in_words(row)
            assert 0 <= row.p_value <= row.corrected <= 1
