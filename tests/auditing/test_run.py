"""The audit: its numbers are those of a plain loop, it goes on where it was, and it says what is odd."""

import base64
import io
import json

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import xcnorm
from tests.auditing.small import CLASSES, TYPES, Brightness, folder, tensors
from xcnorm.auditing import cells, pictures
from xcnorm.data.corruptions import corrupt, published, standard
from xcnorm.data.corruptions.corruption import CORRUPTIONS, Corruption
from xcnorm.errors import UserError
from xcnorm.metrics import robustness_score, score

HALF = {"mean": 0.5, "std": 0.5}


@pytest.fixture
def data(tmp_path):
    return folder(tmp_path / "pictures")


def audited(data, model=None, **options):
    settings = {"corruptions": ",".join(TYPES), "device": "cpu", **HALF, **options}
    return xcnorm.audit(Brightness() if model is None else model, data, **settings)


def by_hand(images, labels, seed=0):
    """The same numbers, from the whole set at once."""
    network = Brightness().eval()

    def asked(batch):
        with torch.no_grad():
            return network((batch.float() / 255 - 0.5) / 0.5).softmax(1)

    clean = asked(images)
    found = {f"{t}/{s}": asked(corrupt(images, t, s, seed)) for t in TYPES for s in (1, 2, 3, 4, 5)}
    robustness = {t: robustness_score(clean, [found[f"{t}/{s}"] for s in (1, 2, 3, 4, 5)]) for t in TYPES}
    return {"clean": clean, **found}, robustness


def test_the_numbers_are_those_of_a_plain_loop(data):
    found = audited(data).models[0]
    images, labels = tensors(data)
    probabilities, robustness = by_hand(images, labels)
    assert 0.4 < found.corrupted < 1  # it breaks, and not everywhere
    for name, rows in probabilities.items():
        expected = score(rows, labels)
        actual = found.clean if name == "clean" else found.cells[name]
        assert actual.accuracy == expected["accuracy"]
        assert actual.calibration_error == pytest.approx(expected["calibration_error"], abs=1e-6)
        assert actual.confidence == pytest.approx(rows.max(1).values.mean().item(), abs=1e-6)
    assert found.robustness == pytest.approx(robustness, rel=1e-4, abs=1e-7)
    means = {t: np.mean([found.cells[f"{t}/{s}"].accuracy for s in range(1, 6)]) for t in TYPES}
    assert found.by_corruption == pytest.approx(means)
    assert found.drop == pytest.approx(found.clean.accuracy - np.mean(list(means.values())))
    rows = [(rows.argmax(1) == labels)[labels == 1] for name, rows in probabilities.items() if name != "clean"]
    (left,) = [scored for scored in found.classes if scored.name == "left"]
    assert left.corrupted == pytest.approx(torch.cat(rows).double().mean().item())


def test_shards_and_batches_make_no_difference(data, monkeypatch):
    whole = audited(data)
    monkeypatch.setattr(pictures, "SHARD", 5)
    monkeypatch.setattr(cells, "_BATCH", 3)
    parts = audited(data)
    assert parts.models[0].accuracies == whole.models[0].accuracies
    assert parts.models[0].robustness == pytest.approx(whole.models[0].robustness, rel=1e-5)
    assert [s.name for s in parts.models[0].specimens] == [s.name for s in whole.models[0].specimens]


def test_another_seed_is_another_audit(data):
    assert audited(data).models[0].cells != audited(data, seed=1).models[0].cells


def test_a_loader_gives_what_the_folder_gives(data):
    images, labels = tensors(data)
    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(images.float() / 255, labels), batch_size=7)
    ours, theirs = audited(loader, classes=CLASSES).models[0], audited(data).models[0]
    assert (ours.clean, ours.cells, ours.robustness) == (theirs.clean, theirs.cells, theirs.robustness)
    assert ours.classes == theirs.classes


def test_a_killed_audit_goes_on_and_ends_the_same(data, tmp_path, monkeypatch):
    monkeypatch.setattr(pictures, "SHARD", 6)
    whole = audited(data).to_json()
    write, written = cells._write, []

    def killed(path, answered):
        if len(written) == 5:
            raise KeyboardInterrupt
        write(path, answered)
        written.append(path)

    with monkeypatch.context() as patch:
        patch.setattr(cells, "_write", killed)
        with pytest.raises(KeyboardInterrupt):
            audited(data, keep=tmp_path / "kept")
    asked = []
    corrupted = cells.corrupt
    monkeypatch.setattr(cells, "corrupt", lambda images, *rest: asked.append(len(images)) or corrupted(images, *rest))
    assert audited(data, keep=tmp_path / "kept").to_json() == whole
    assert sum(asked) == (24 * 2 - 6 * 3) * 5  # two shards were under way: five cells, of which two clean
    asked.clear()
    assert audited(data, keep=tmp_path / "kept").to_json() == whole
    assert asked == []


def test_what_is_kept_is_not_taken_for_another_network_or_damaged_or_changed_pictures(data, tmp_path):
    keep = tmp_path / "kept"
    first = audited(data, keep=keep).models[0]
    other = Brightness()
    nn.init.constant_(other.scale, 3.0)
    assert audited(data, other, keep=keep).models[0].clean.confidence < first.clean.confidence
    for path in keep.rglob("*.npz"):
        path.write_bytes(path.read_bytes()[:100])
    assert audited(data, keep=keep).models[0] == first
    Image.fromarray(np.full((16, 16, 3), 255, np.uint8)).save(data / "up" / "0.png")
    assert audited(data, keep=keep).models[0].clean.accuracy < first.clean.accuracy


def test_the_pictures_that_break_first_stand_beside_their_clean_twins(data):
    found = audited(data).models[0]
    images, labels = tensors(data)
    probabilities, _ = by_hand(images, labels)
    right = {name: (rows.argmax(1) == labels) for name, rows in probabilities.items()}
    held = torch.stack(
        [torch.stack([right[f"{t}/{s}"] for s in range(1, 6)]).int().cumprod(0).sum(0) for t in TYPES]
    ).double()
    held = held.mean(0).where(right["clean"], 9.0)
    specimens = found.specimens
    assert [s.withstood for s in specimens] == held.sort().values[: len(specimens)].tolist()
    names = [f"{path.parent.name}/{path.name}" for path in sorted(data.glob("*/*.png"))]
    first = specimens[0]
    index = names.index(first.name)
    image = corrupt(images, first.corruption, first.severity)[index].permute(1, 2, 0).numpy()
    for shown, expected in ((first.broken_png, image), (first.clean_png, images[index].permute(1, 2, 0).numpy())):
        assert np.array_equal(np.asarray(Image.open(io.BytesIO(base64.b64decode(shown)))), expected)
    assert first.truth == CLASSES[labels[index]] != first.guess
    assert not right[f"{first.corruption}/{first.severity}"][index]


def test_fifteen_and_nineteen_are_told_apart(data):
    assert audited(data, corruptions="standard").corruptions == standard()
    nineteen = audited(data, corruptions="all")
    assert nineteen.corruptions == published()
    assert "19 corruptions" in str(nineteen)
    assert "2 chosen corruptions: gaussian_noise, fog" in str(audited(data))


def test_a_corruption_of_ones_own_is_a_category_of_its_own(data, monkeypatch):
    inverted = Corruption("own", (None,) * 5, (None,) * 5, lambda images, fields, constants: 1 - images)
    monkeypatch.setitem(CORRUPTIONS._items, "inverted", inverted)
    assert "1 chosen corruption: inverted" in str(audited(data, corruptions="inverted"))
    mixed = audited(data, corruptions="inverted,fog")
    assert set(mixed.models[0].categories(mixed.grouping)) == {"own", "weather"}


def test_a_network_in_training_mode_is_asked_in_evaluation_mode_and_put_back(data):
    model = Brightness().train()
    model.drop.eval()
    assert audited(data, model).models[0] == audited(data).models[0]
    assert (model.training, model.drop.training) == (True, False)


def test_several_models_side_by_side_are_as_each_alone(data):
    other = Brightness()
    nn.init.constant_(other.scale, 3.0)
    both = audited(data, [Brightness(), other])
    assert [model.name for model in both.models] == ["Brightness", "Brightness (2)"]
    assert both.models[0] == audited(data).models[0]
    assert both.models[1].cells == audited(data, other).models[0].cells


def test_saved_and_loaded_it_is_the_same(data, tmp_path):
    found = audited(data)
    found.save(tmp_path / "audit.json")
    assert xcnorm.auditing.load_audit(tmp_path / "audit.json") == found
    assert (
        json.loads((tmp_path / "audit.json").read_text())["models"][0]["mean"]["corrupted"] == found.models[0].corrupted
    )


def test_mean_corruption_errors_are_relative_to_any_saved_audit(data):
    other = Brightness()
    other.drop = nn.Identity()
    baseline = audited(data, nn.Sequential(other, nn.Linear(3, 3)))
    found = audited(data, baseline=baseline)
    errors = [{t: 1 - a for t, a in audit.models[0].by_corruption.items()} for audit in (found, baseline)]
    assert found.models[0].mce == pytest.approx(100 * np.mean([errors[0][t] / errors[1][t] for t in TYPES]))
    assert audited(data, baseline=audited(data)).models[0].mce == pytest.approx(100)
    assert "over 2 corruptions, relative to Sequential" in found.models[0].notes[-1]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"corruptions": "fogg"}, "did you mean 'fog'"),
        ({"mean": None}, "give both"),
        ({"model": []}, "no model"),
        ({"model": "nothing here"}, "is no model; give the folder of a run or of save_pretrained"),
        ({"model": "weights.pth"}, "pickle"),
        ({"model": nn.Sequential(nn.Flatten(), nn.Linear(768, 7))}, "answers with 7 numbers, but there are 3 classes"),
        ({"model": nn.Conv2d(3, 3, 3)}, "a row of numbers for each of 4 pictures"),
        (
            {"model": nn.Sequential(nn.Flatten(), nn.Linear(75, 3))},
            r"cannot take pictures of the shape \(4, 3, 16, 16\)",
        ),
    ],
)
def test_what_cannot_be_audited_is_told_in_one_line(options, words, data):
    with pytest.raises(UserError, match=words) as told:
        audited(data, **options)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    ("batches", "words"),
    [
        ([], "no pictures in the loader"),
        ([(torch.rand(2, 3, 16, 16) * 3, torch.tensor([0, 1]))], "leave normalisation out"),
        ([(torch.rand(2, 3, 16, 16), torch.tensor([0, 3]))], "labels are from 0 to 3"),
        ([(torch.rand(2, 3, 16, 16), torch.tensor([0.0, 1.0]))], "integer labels"),
        ([(torch.rand(1, 3, s, s), torch.tensor([0])) for s in (16, 20)], "must have one size"),
        ([torch.rand(3, 16, 16)], "pairs of images"),
    ],
)
def test_what_a_loader_must_not_give(batches, words):
    with pytest.raises(UserError, match=words):
        audited(batches)
