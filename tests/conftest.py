import os

if "PYTEST_XDIST_WORKER" in os.environ:  # the cores are busy with other tests: one thread, unless a test asks for more
    os.environ.setdefault("OMP_NUM_THREADS", "1")

import pytest
from hypothesis import settings

from lrmc import _kernels

# The same examples on every run and every machine; a loaded machine is no failure.
settings.register_profile("lrmc", deadline=None, derandomize=True, max_examples=40)
settings.load_profile("lrmc")


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    """Where presentations put their files."""
    return tmp_path_factory.mktemp("presentations")


@pytest.fixture
def restore_instruction_set():
    """What a test chose does not outlast it."""
    chosen = _kernels.instruction_set()
    yield
    _kernels.use_instruction_set(chosen)
