import numpy as np
import pytest
from pages import Reader

import lrmc
from lrmc.complete import tables
from lrmc.demo import problems, tour
from lrmc.demo import scene as demo

pytest.importorskip("PIL")


@pytest.fixture(scope="module")
def mended(tmp_path_factory):
    pytest.importorskip("sklearn")
    pytest.importorskip("pandas")
    return tour.mended_table(tmp_path_factory.mktemp("tour"))


def test_the_table_is_spoiled_as_it_says(mended):
    table = mended.table
    assert table.truth.shape == (569, 30)
    assert table.hidden.mean() == pytest.approx(tour.GAPS, abs=0.01)
    assert table.slipped.mean() == pytest.approx(
        tour.SLIPS * (1 - tour.GAPS), abs=0.003
    )
    values = tables.read(mended.source).values
    np.testing.assert_array_equal(np.isnan(values), table.hidden)
    np.testing.assert_allclose(
        values[table.slipped], 10 * table.truth[table.slipped], rtol=1e-5
    )


def test_and_mended(mended):
    """What the page says is counted again here, from the files."""
    table = mended.table
    values, written = (tables.read(path) for path in (mended.source, mended.target))
    names = (
        {f"sample {i + 1}": i for i in range(569)},
        {name: j for j, name in enumerate(table.names)},
    )
    listed = (
        mended.target.with_name("completed.outliers.csv").read_text().splitlines()[1:]
    )
    places = {
        tuple(at[x] for at, x in zip(names, line.split(",")[:2], strict=True))
        for line in listed
    }
    assert (
        sum(table.slipped[i, j] for i, j in places)
        == mended.slips_found
        > 0.95 * table.slipped.sum()
    )
    assert (
        len(places) - mended.slips_found
        == mended.others_found
        < 0.03 * table.truth.size
    )
    assert mended.missed < 0.5
    changed = {
        (i, j)
        for i, j in zip(*np.nonzero(values.values != written.values), strict=True)
    }
    assert changed == places | set(zip(*np.nonzero(table.hidden), strict=True))
    assert written.frame["diagnosis"].tolist() == table.frame["diagnosis"].tolist()


@pytest.fixture(scope="module")
def film():
    scene = demo.film(48, 72, 60)
    # pixels that balloons cross for long
    with pytest.warns(lrmc.DoubtWarning, match="too few entries agree"):
        return scene, demo.recovered(scene)


def test_layers_of_the_film(film):
    scene, found = film
    layers = {name: layer[20] for name, layer in tour.film_layers(scene, found).items()}
    assert {picture.shape for picture in layers.values()} == {(48, 72, 3)}
    hidden = np.isnan(layers["observed"])
    assert np.all(np.isnan(layers["outliers"]) | ~hidden)
    assert np.median(np.abs(layers["recovered"] - layers["truth"])) < 1e-3
    off = ~np.isnan(layers["outliers"]).all(axis=2)
    assert 0.02 < off.sum() / (~hidden).all(axis=2).sum() < 0.3


@pytest.mark.parametrize("with_table", [True, False])
def test_the_page(film, tmp_path, with_table, request):
    race = [problems.measured(case) for case in list(problems.problems(200))[:2]]
    path = tour.write_tour(
        tmp_path / "report.html",
        race,
        *film,
        request.getfixturevalue("mended") if with_table else None,
    )
    page = Reader(path.read_text("utf-8"))
    assert len(page.all("div", **{"class": "film"})) == 1
    assert len(page.all("div", **{"class": "compare"})) == 1
    assert "all observed" in page.text
    assert ("measured.csv" in page.text) == with_table
    assert ("was left out" in page.text) != with_table
    assert path.stat().st_size < tour.BUDGET + 500_000


def test_without_scikit_learn_the_table_is_left_out(monkeypatch):
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util,
        "find_spec",
        lambda name: None if name == "sklearn" else find(name),
    )
    assert not tour.has_table()
