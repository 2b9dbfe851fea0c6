import pytest

from ktae.errors import InputError
from ktae.experiments.run_folder import RunFolder
from ktae.files.hub import check_local_or_hub


def test_a_run_folder_is_no_model(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.create("name: r\n")
    with pytest.raises(InputError, match=str(run.model)):
        check_local_or_hub("model", str(run.path))
    run.model.mkdir()
    check_local_or_hub("model", str(run.model))


@pytest.mark.parametrize("name", ["gpt2", "Qwen/Qwen2.5-Math-1.5B"])
def test_a_hub_name_may_be_anywhere(name):
    check_local_or_hub("model", name)
