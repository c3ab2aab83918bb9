"""Results in notebooks, and what a run says on its way."""

import logging

import numpy as np
import pytest

import lrmc
from lrmc._log import Lines
from lrmc.result import Iterate


@pytest.fixture(scope="module")
def result():
    return lrmc.solve(lrmc.synthetic.problem(80, 2, 0.1, 0.8, form="dense").Y)


def test_the_card_has_the_facts_and_the_plot(result):
    pytest.importorskip("matplotlib")
    html = result._repr_html_()
    for fact in ("80 x 80, rank 2", "converged", "exact", "data:image/png;base64,"):
        assert fact in html
    assert html.count("<div") == html.count("</div>")


def test_warnings_in_the_card_are_text(result):
    from dataclasses import replace

    html = replace(result, warnings=("<script>alert(1)</script>",))._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;" in html


def test_the_figure_shows_itself(result):
    pytest.importorskip("matplotlib")
    assert result.plot()._repr_png_().startswith(b"\x89PNG")


@pytest.mark.slow
def test_a_notebook_shows_the_card_and_the_picture(tmp_path):
    nbclient, nbformat = (
        pytest.importorskip("nbclient"),
        pytest.importorskip("nbformat"),
    )
    pytest.importorskip("ipykernel")
    pytest.importorskip("matplotlib")
    new = nbformat.v4
    cells = [
        "import lrmc\nresult = lrmc.solve(lrmc.synthetic.problem(60, 2, 0.1, 0.9).Y)",
        "result",
        "result.plot()",
    ]
    notebook = new.new_notebook(cells=[new.new_code_cell(text) for text in cells])
    nbclient.NotebookClient(notebook, timeout=120).execute(cwd=str(tmp_path))
    card, picture = (cell.outputs[0].data for cell in notebook.cells[1:])
    assert "lrmc.Result" in card["text/html"]
    assert "image/png" in picture


def test_verbose_says_where_the_run_is(capsys):
    lrmc.solve(np.outer(range(1, 20), range(1, 9)), 1, verbose=True)
    assert "lrmc: Result(19 x 8, rank 1, CONVERGED" in capsys.readouterr().err
    with pytest.raises(ValueError, match="verbose"):
        lrmc.solve(np.eye(3), 1, verbose="much")


def test_the_logger_hears_how_a_run_ended(caplog, capsys):
    with caplog.at_level(logging.INFO, "lrmc"):
        lrmc.solve(np.outer(range(1, 20), range(1, 9)), 1)
    assert "Result(19 x 8, rank 1" in caplog.text
    assert capsys.readouterr().err == ""


def test_a_line_every_second_with_the_time_left():
    seconds, said = iter(np.arange(0, 100, 0.4)), []
    lines = Lines(1e-6, said.append, clock=lambda: float(next(seconds)))
    factors = np.ones((2, 1))
    for k in range(10):
        lines(Iterate(k, factors, factors, 10.0 ** (-k / 2), 1.0, 0.9, "exact"))
    assert 2 <= len(said) <= 4
    assert all("s left" in line for line in said)
