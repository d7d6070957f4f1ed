"""The bar that shows bytes."""

from xcnorm.data.download.progress import bytes_bar


def test_a_bar_on_a_terminal(monkeypatch, capsys):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "120")
    with bytes_bar("data.bin") as progress:
        progress(1000, None)
        progress(2_000_000, 8_000_000)
    shown = capsys.readouterr()
    assert "data.bin" in shown.err
    assert "2.0/8.0 MB" in shown.err
    assert shown.out == ""


def test_no_bar_in_a_log(monkeypatch, capsys):
    monkeypatch.delenv("FORCE_COLOR", raising=False)
    with bytes_bar("data.bin") as progress:
        progress(2_000_000, 8_000_000)
    assert capsys.readouterr() == ("", "")
