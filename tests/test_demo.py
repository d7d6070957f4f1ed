"""The demonstration end to end, with a few steps."""

import json

import pytest
from PIL import Image

from xcnorm import demo
from xcnorm.cli import main
from xcnorm.data import Domain
from xcnorm.models import create_model


def cut(domain: Domain) -> Domain:
    """A few digits of every class; most domains are sorted by class."""
    return Domain(domain.name, domain.images[::41], domain.labels[::41])


@pytest.fixture
def quick(monkeypatch):
    """Fewer digits to test on; everything else as always."""
    domains = demo._domains

    def few():
        source, targets = domains()
        return source, {name: cut(domain) for name, domain in targets.items()}

    monkeypatch.setattr(demo, "_domains", few)


def test_it_prints_a_table_and_writes_a_figure(quick, tmp_path, capsys):
    out = tmp_path / "new" / "folder"
    assert main(["demo", "--iterations", "3", "--out", str(out)]) == 0
    printed = capsys.readouterr()
    for word in ("plain convolutions", "R-XCNorm", "optdigits", "rendered", "inverted", "contrast", "demo.png"):
        assert word in printed.out
    assert "3/3" in printed.err  # progress bars
    with Image.open(out / "demo.png") as figure:
        assert min(figure.size) > 500
    stored = json.loads((out / "demo.json").read_text())
    assert set(stored["accuracy"]) == {"conv", "xcnorm", "r_xcnorm"}
    assert all(0 <= value <= 100 for row in stored["accuracy"].values() for value in row.values())


def test_same_seed_same_result(quick, tmp_path, capsys):
    results = []
    for run in ("a", "b"):
        assert main(["demo", "--iterations", "2", "--json", "--out", str(tmp_path / run)]) == 0
        results.append(json.loads(capsys.readouterr().out)["accuracy"])
    assert results[0] == results[1]


def test_training_learns():
    source, _ = demo._domains()
    few = Domain("few", source.images[::60], source.labels[::60])
    model = create_model("digits_cnn", layer="xcnorm")
    before = demo._accuracy(model, few)
    for _ in demo._train(model, few, 12, seed=0):
        pass
    assert demo._accuracy(model, few) > max(60, before)


def test_an_unwritable_folder_fails_before_training(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    assert main(["demo", "--out", str(tmp_path / "file" / "below")]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert "Not a directory" in complaint


def test_a_misspelt_backend_is_the_users_to_fix(quick, tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("XCNORM_BACKEND", "desne")
    assert main(["demo", "--iterations", "1", "--out", str(tmp_path)]) == 2
    assert "did you mean 'dense'" in capsys.readouterr().err
