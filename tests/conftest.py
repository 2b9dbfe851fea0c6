"""Environment and fixtures of the whole suite.

The environment is set before numba, torch or transformers can be imported: they read it once.
"""

import hashlib
import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parents[1]

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")


def _numba_cache() -> Path:
    """A cache folder for exactly this text of the compiled code.

    numba's disk cache looks only at the file that holds the outermost function, so it would go on
    serving kernels that were compiled with an older `statistics.py`. `config.py` is in the hash
    because the kernels compile its constants in.
    """
    package = ROOT / "src" / "ktae"
    sources = [package / "config.py", package / "statistics.py"]
    sources += sorted((package / "backends").glob("*.py"))
    digest = hashlib.sha256(b"\0".join(path.read_bytes() for path in sources)).hexdigest()
    return ROOT / ".pytest_cache" / f"numba-{digest[:16]}"


os.environ["NUMBA_CACHE_DIR"] = str(_numba_cache())

settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")

ALWAYS_RUN = ("naive", "cpu")
"""Backends without special needs: if one of these cannot run, tests fail instead of skipping."""


def _backend_names() -> list[str]:
    from ktae.backends import BACKENDS  # imports NumPy, so only after the environment is set

    return list(BACKENDS)


def _skip_unless_it_runs(name: str) -> str:
    if name not in ALWAYS_RUN:
        from ktae import key_token_values

        try:
            key_token_values([[1], [2]], [[1], [1]], [1, 0], [0, 0], backend=name)
        except Exception as error:
            pytest.skip(f"backend {name!r} cannot run here: {error}")
    return name


@pytest.fixture(scope="session", params=_backend_names())
def backend(request: pytest.FixtureRequest) -> str:
    """The name of every registered backend in turn; one that cannot run here is skipped."""
    return _skip_unless_it_runs(request.param)


@pytest.fixture(scope="session", params=[name for name in _backend_names() if name != "naive"])
def fast_backend(request: pytest.FixtureRequest) -> str:
    """Every backend but the oracle, which the others are compared with."""
    return _skip_unless_it_runs(request.param)


@pytest.fixture(scope="session")
def table_backend(backend: str) -> str:
    """The backend itself if it makes tables; `auto` for those that leave tables to the host."""
    return backend if backend in ALWAYS_RUN else "auto"


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Rollouts, benchmarks and a tokenizer that lie beside the repository, not in it."""
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(f"needs the shared data at {folder}, and there is no such folder")
    return folder
