import pytest

from ktae.errors import InputError
from ktae.experiments.run_folder import RunFolder
from ktae.files.hub import check_local_or_hub, copy_of, local_or_hub


def test_a_run_folder_is_no_model(tmp_path):
    run = RunFolder(tmp_path / "run")
    run.create("name: r\n")
    with pytest.raises(InputError, match=str(run.model)):
        check_local_or_hub("model", str(run.path))
    run.model.mkdir()
    check_local_or_hub("model", str(run.model))


@pytest.mark.parametrize("name", ["gpt2", "Qwen/Qwen2.5-Math-1.5B"])
def test_a_hub_name_is_taken_as_it_is_unless_there_is_a_copy(name, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert local_or_hub("model", name) == name
    copy_of(name).mkdir(parents=True)
    (copy_of(name) / "config.json").touch()
    assert local_or_hub("model", name) == str(tmp_path / "ktae/models" / name)
