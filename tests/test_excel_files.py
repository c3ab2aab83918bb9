"""Spreadsheets: what is read, and that everything but the new cells stays as it was."""

import datetime

import numpy as np
import pytest

from lrmc.complete import in_memory, tables
from lrmc.complete.excel_files import FILLED, REPLACED

openpyxl = pytest.importorskip("openpyxl")
pd = pytest.importorskip("pandas")


pytestmark = pytest.mark.filterwarnings("ignore:.*looks like numbers")


@pytest.fixture
def book(tmp_path):
    """Ten stations over 60 days: dates, text, units, a missing code, gaps and a gross error, below
    an empty line, beside another sheet and a formula.
    """
    rng = np.random.default_rng(0)
    X = np.outer(rng.uniform(1, 2, 60), rng.uniform(20, 30, 6))
    X = np.round(X + 0.05 * rng.standard_normal(X.shape), 1)
    book = openpyxl.Workbook()
    sheet = book.active
    sheet.title = "measured"
    sheet.append([])
    sheet.append(["day", "note", *(f"s{j}" for j in range(6)), "weight", "sum"])
    for i, row in enumerate(X.tolist()):
        day = datetime.datetime(2024, 1, 1) + datetime.timedelta(days=i)
        sheet.append(
            [day, "ok" if i % 2 else None, *row, f"{i + 5} kg", f"=C{i + 3}+1"]
        )
    sheet["C5"], sheet["D6"], sheet["E7"], sheet["F8"] = None, -999, "n/a", 9000
    sheet["C10"].font = openpyxl.styles.Font(bold=True)
    book.create_sheet("other")["A1"] = "untouched"
    path = tmp_path / "in.xlsx"
    book.save(path)
    return path, X


def test_a_spreadsheet_is_completed_in_place(book, tmp_path):
    source, X = book
    target = tmp_path / "out.xlsx"
    with pytest.warns(
        UserWarning, match="'weight' passes through as text, but looks like"
    ):
        done = in_memory.complete(
            source, target, 1, missing=["-999"], marks_to=tmp_path / "marks.csv"
        )
    assert done.outliers.values.tolist() == [9000]
    after = openpyxl.load_workbook(target)
    sheet = after["measured"]
    new = {"C5": (2, 0), "D6": (3, 1), "E7": (4, 2), "F8": (5, 3)}
    for place, (i, j) in new.items():
        cell = sheet[place]
        assert abs(cell.value - X[i, j]) < 0.5
        assert cell.value == round(cell.value, 1)  # the decimals of the column
        color = REPLACED if place == "F8" else FILLED
        assert cell.fill.fgColor.rgb.endswith(color)
    assert "was 9000" in sheet["F8"].comment.text
    assert (after["other"]["A1"].value, sheet["J3"].value) == ("untouched", "=C3+1")
    assert sheet["C10"].font.bold
    before = openpyxl.load_workbook(source)["measured"]
    for line in before.iter_rows():
        for cell in line:
            if cell.coordinate not in new:
                assert sheet[cell.coordinate].value == cell.value
                assert sheet[cell.coordinate].fill.fgColor.rgb == "00000000"
    marks = pd.read_csv(tmp_path / "marks.csv")
    assert sorted(marks["column"]) == ["s0", "s1", "s2", "s3"]
    assert marks.set_index("column")["why"]["s3"] == "replaced"
    assert marks["row"][0] == "2024-01-03"


def test_sheets_have_names(book, tmp_path):
    source, _ = book
    table = tables.read(source, name="measured", missing=["-999"])
    assert table.values.shape == (60, 6)
    assert table.others() == ["day", "note", "weight", "sum"]
    with pytest.raises(ValueError, match="no sheet 'x'; there are: measured, other"):
        tables.read(source, name="x")
    with pytest.raises(ValueError, match="no numbers"):
        tables.read(source, name="other")


def test_a_code_for_missing_is_hinted_at(book):
    tables.read(book[0])  # it stands there once
    sheet = openpyxl.load_workbook(book[0])
    for row in (12, 20, 33):
        sheet["measured"][f"D{row}"] = -999
    sheet.save(book[0])
    with pytest.warns(UserWarning, match=r"-999 stands far .* 's1'.*--missing=-999"):
        tables.read(book[0])


def test_what_would_be_a_formula_stays_text(tmp_path):
    (tmp_path / "a.csv").write_text("who,a,b\n=1+1,1.5,\nx,2.5,3\ny,0.5,1\n")
    table = tables.read(tmp_path / "a.csv")
    tables.write(tmp_path / "a.xlsx", table, np.nan_to_num(table.values, nan=2.0))
    sheet = openpyxl.load_workbook(tmp_path / "a.xlsx").active
    assert [cell.value for cell in sheet[2]] == ["'=1+1", 1.5, 2]


def test_an_archive_that_unpacks_to_too_much_is_refused(book, monkeypatch):
    monkeypatch.setattr("lrmc.complete.excel_files.memory_there_is", lambda: 1000)
    with pytest.raises(ValueError, match=r"unpacks to .* more than the memory"):
        tables.read(book[0])
