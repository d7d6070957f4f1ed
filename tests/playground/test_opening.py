"""Opening a playground: which networks are in it, what they are called, and what there is to pick."""

import pytest
import torch

from tests.playground.conftest import CLASSES, PIXELS, TARGET
from xcnorm.auditing import open_model
from xcnorm.errors import UserError
from xcnorm.playground import open_playground
from xcnorm.playground.pictures import from_png

pytestmark = pytest.mark.xdist_group("playground")

MODEL = "tests.auditing.small:Brightness"


def test_a_folder_of_runs_gives_its_networks_plain_ones_first(playground):
    about = playground.about()
    assert about["networks"] == ["<script>alert(3)</script>plain", "R-XCNorm\N{REPLACEMENT CHARACTER}[2J"]
    assert (about["pixels"], about["title"], about["notes"]) == (PIXELS, "Your folder", [])


def test_samples_are_of_the_source_and_of_each_target_in_the_order_of_the_classes(playground):
    strips = playground.about()["samples"]
    assert [strip["domain"] for strip in strips] == ["source", TARGET]
    for strip in strips:
        truths = [sample["truth"] for sample in strip["pictures"]]
        assert truths == [CLASSES[place % 3] for place in range(10)]


def test_every_network_is_asked_about_the_same_picture(playground, runs):
    picture = playground.about()["samples"][0]["pictures"][1]["png"]
    answer = playground.look({"picture": picture, "changes": {"inversion": 100, "blur": 2}})
    seen = from_png(answer["seen"], PIXELS)
    assert not torch.equal(seen, from_png(picture, PIXELS))
    folders = [next(runs.glob(f"*/erm+{layer}-*/seed0")) for layer in ("conv", "r_xcnorm")]
    for folder, network in zip(folders, answer["networks"], strict=True):
        subject = open_model(folder, torch.device("cpu"))
        expected = subject.probabilities(seen, subject.normalisation)[0]
        shares = [row["share"] for row in network["rows"]]
        assert shares == pytest.approx(expected.tolist(), abs=1e-6)
        assert network["guess"] == {"name": CLASSES[int(expected.argmax())], "share": max(shares)}


def test_an_inverted_picture_moves_a_plain_layer_and_no_layer_of_ours(playground):
    picture = playground.about()["samples"][0]["pictures"][1]["png"]
    plain, ours = playground.look({"picture": picture, "changes": {"inversion": 100}})["networks"]
    assert plain["guess"]["name"] != "1"
    assert plain["maps"]["moved"] > 0.5
    assert ours["maps"]["moved"] < 0.001
    assert ours["guess"]["name"] == "1"


def test_another_model_beside_a_run_is_normalised_as_fits_its_pictures_best(runs):
    found = open_playground([runs, MODEL], runs.parent / "data")
    assert found.onlookers[2].name == MODEL
    assert any("it does not say how its pictures are normalised" in note for note in found.about()["notes"])
    answer = found.look({"picture": found.about()["samples"][0]["pictures"][0]["png"], "changes": {}})
    assert [row["name"] for row in answer["networks"][2]["rows"]] == list(CLASSES)
    assert answer["networks"][2]["maps"] is None


def test_without_its_data_a_run_has_no_samples_but_can_be_played_with(runs, tmp_path):
    found = open_playground([runs], tmp_path)
    assert found.about()["samples"] == []
    assert "there are no samples: " in found.about()["notes"][0]


@pytest.mark.parametrize("question", [None, [], {}, {"picture": ""}, {"picture": "", "changes": []}, "picture"])
def test_a_question_of_another_form_is_refused(question, playground):
    with pytest.raises(UserError, match=r"a question is a table|changes must be a table"):
        playground.look(question)


def test_what_cannot_be_opened_is_one_line(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for models, words in (
        ((), "there is no xcnorm-demo here"),
        ([tmp_path], "holds no finished run"),
        ([MODEL], "no network says how large its pictures are"),
        (["absent"], "is no model"),
        ([runs] * 5, "10 networks are too many"),
    ):
        with pytest.raises(UserError, match=words):
            open_playground(models)


def test_the_runs_of_the_demonstration_are_those_that_are_taken(runs, tmp_path, monkeypatch):
    (tmp_path / "xcnorm-demo").symlink_to(runs.parent)
    monkeypatch.chdir(tmp_path)
    assert len(open_playground().onlookers) == 2
