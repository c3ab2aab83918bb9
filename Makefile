# `make demo` and `make test` set up everything they need in .venv. Wanted: Python 3.10 or newer with pip and venv, g++, make.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Tests run beside each other: threads of each would wait for those of the others. Some start Python anew: its bytecode is kept.
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 PYTHONDONTWRITEBYTECODE=
# Each process begins with a stretch of whole files, so that what the tests of a file share is made once.
BESIDE := -n auto --dist worksteal
KERNELS := $(wildcard src/lrmc/_kernels/*.cpp src/lrmc/_kernels/*.hpp)
BUILT_FROM := pyproject.toml CMakeLists.txt $(KERNELS)

.PHONY: help demo test slow fuzz silence lint format docs wheels sanitize bench instructions race experiments clean

help:
	@echo "make demo    show what lrmc does, in a minute: a table, and lrmc-demo/report.html"
	@echo "make test    run all tests"
	@echo "make fuzz [SECONDS=600]  random inputs, files and signals, about so many seconds in all; SEED=N begins there"
	@echo "make slow    run the tests that make test leaves out: processes that are killed, experiments, the race"
	@echo "make silence count wrong answers that nobody is told of, on hundreds of problems at the edges"
	@echo "make lint    check format, style and types"
	@echo "make format  put the code in form"
	@echo "make docs    build the documentation into build/docs, warnings as errors: open build/docs/index.html"
	@echo "make wheels  build wheels, repair them and try them in fresh environments: dist/"
	@echo "make sanitize  the kernels under AddressSanitizer and UBSan: a build of their own, their tests, random calls"
	@echo "make bench   time one pass over the data against reading it, and solves against their passes"
	@echo "make instructions [WRITE=1]  instructions of small solves, by callgrind, against benchmarks/instructions.json"
	@echo "make race [PEERS='PYTHON ...']  against the packages installed in these Pythons, and cost against size"
	@echo "make experiments [QUICK=1]  the paper's synthetic tables and figures: hours; with QUICK=1 tiny, in seconds"
	@echo "make clean   remove what was built, .venv too"

demo: $(READY)
	@$(BIN)/lrmc demo -o lrmc-demo

test: $(READY)
	@$(ONE_THREAD) $(BIN)/pytest -q $(BESIDE)

slow: $(READY)
	@$(ONE_THREAD) $(BIN)/pytest -q $(BESIDE) -m slow

# Without xdist, so that a crash names its test. A failure prints its seed: LRMC_FUZZ_SEED=N LRMC_FUZZ_SECONDS=0 repeats it.
SECONDS ?= 600
SEED ?= 1000
fuzz: $(READY)
	@LRMC_FUZZ_TOTAL=$(SECONDS) LRMC_FUZZ_SEED=$(SEED) $(BIN)/pytest -q -m "" tests/fuzz --show-capture=stdout

silence: $(READY)
	@$(BIN)/python tests/silence/count.py --jobs 2

lint: $(READY)
	@$(BIN)/clang-format --dry-run --Werror $(KERNELS)
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@$(BIN)/repo-review . --format json > /dev/null || $(BIN)/repo-review .

format: $(READY)
	@$(BIN)/clang-format -i $(KERNELS)
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

docs: $(READY)
	@$(ONE_THREAD) $(BIN)/sphinx-build -W --keep-going -q docs build/docs
	@echo "open build/docs/index.html"

wheels: $(READY)
	@$(BIN)/python tools/wheels.py $(if $(PYTHONS),--python $(PYTHONS))

# A second lrmc whose kernels stop at the first wrong address or undefined operation. The limits on memory that some tests set are
# not for these; an editable install would take the place of this copy, so its finder goes.
SANITIZED := build/sanitized
SANITIZE := tests/test_settling.py tests/test_tails.py tests/test_neighbors.py tests/test_simple.py tests/test_compress.py tests/test_blood.py tests/test_lean.py tests/test_thin.py tests/test_loop_kernels.py tests/test_loop_step.py tests/test_video_windows.py tests/test_video_thresholds.py tests/test_small.py tests/test_layered.py tests/test_team.py tests/test_power_adjoint.py tests/fuzz/test_kernels.py tests/test_kernels.py tests/test_row_systems.py tests/test_refit.py tests/test_gaps.py tests/test_grouped.py
sanitize: $(READY)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --upgrade --target $(SANITIZED) -C build-dir=$(SANITIZED)/cmake -C cmake.define.LRMC_SANITIZE=ON .
	@LD_PRELOAD="$$($(CXX) -print-file-name=libasan.so) $$($(CXX) -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 OMP_NUM_THREADS=2 \
	LRMC_FUZZ_SECONDS=$(or $(LRMC_FUZZ_SECONDS),15) $(BIN)/python -c "import sys; sys.path.insert(0, '$(SANITIZED)'); \
	sys.meta_path[:] = [f for f in sys.meta_path if 'ScikitBuild' not in type(f).__name__]; \
	import lrmc, pytest; assert '$(SANITIZED)' in lrmc.__file__; sys.exit(pytest.main(sys.argv[1:]))" \
	-q -p no:cacheprovider -k "not gram_matrices and not very_many and not another_process and not too_little_memory" $(SANITIZE)

bench: $(READY)
	@$(BIN)/python benchmarks/passes.py
	@$(BIN)/python benchmarks/solve.py

# A change that makes solves dearer on purpose writes the new counts: WRITE=1.
COUNTS := benchmarks/instructions.json
instructions: $(READY)
	@$(BIN)/python tools/instructions.py $(if $(WRITE),--write,--against) $(COUNTS)

race: $(READY)
	@$(BIN)/python benchmarks/size.py
	@$(BIN)/python benchmarks/peers.py $(addprefix --python ,$(PEERS))
	@$(BIN)/python benchmarks/page.py

EXPERIMENTS := trained table1 table2 fig2 fig3 fig4 fig5
ifdef QUICK
RESULTS := quick-results
experiments: $(READY)
	@rm -rf $(RESULTS)
	@for name in $(filter-out trained,$(EXPERIMENTS)); do $(BIN)/python experiments/$$name.py --quick --output $(RESULTS) > /dev/null || exit 1; done
	@$(BIN)/python experiments/page.py --folder $(RESULTS) --target $(RESULTS)/paper.md
else
experiments: $(READY)
	@$(BIN)/python experiments/tuned.py --missing --method scaled_gd gd --p 0.1 0.2 0.3 0.4 0.5 0.6 0.7 0.8 0.9 1
	@$(BIN)/python experiments/tuned.py --missing --method scaled_gd gd --p 0.1 1 --alpha 0.15 0.2 0.25 0.3 --instances 3
	@for name in $(EXPERIMENTS); do $(BIN)/python experiments/$$name.py || exit 1; done
	@$(BIN)/python experiments/page.py
endif

clean:
	rm -rf quick-results docs/gallery docs/generated docs/sg_execution_times.rst
	rm -rf .venv build dist lrmc-demo .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find src tests benchmarks tools docs -name __pycache__ -type d -exec rm -rf {} +

$(READY): $(BUILT_FROM)
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@echo "building lrmc in .venv (a few minutes the first time)"
	@$(BIN)/python -m pip install -qq --disable-pip-version-check 'pip>=25.1'  # which knows dependency groups
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --group build
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation -e '.[all]' --group dev
	@touch $(READY)
