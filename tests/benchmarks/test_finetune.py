"""Arms of fine-tuning are possible, fair and told on a page; what comes of them takes a GPU."""

import json

import pytest

from benchmarks.finetune import ARMS, ORIGINAL, fine_tuned, main, original
from benchmarks.starts import main as starts

ARM = {"settings": {"model": {"name": "wrn16_4"}, "schedule": {"epochs": 40}}, "seconds": [50.0, 51.0]}
RESULT = {
    "benchmark": "CIFAR-10-C",
    "seeds": [0, 1],
    "environment": {"device": "GPU", "torch": "2"},
    "arms": {
        ORIGINAL: ARM | {"clean": [94.0, 95.0], "corrupted": [70.0, 70.0], "sdg4": [50.0, 50.0]},
        "plain": ARM | {"clean": [94.0, 94.0], "corrupted": [71.0, 73.0], "sdg4": [50.0, 52.0]},
    },
}


@pytest.mark.parametrize("mini", [True, False])
def test_every_arm_starts_from_the_original_and_is_trained_as_long(mini):
    before = original(mini, 0, {})
    arms = {label: fine_tuned(label, before) for label in ARMS}
    assert {arm.start.run for arm in arms.values()} == {before.folder.as_posix()}
    assert len({(arm.schedule, arm.optimiser, arm.data, arm.run) for arm in arms.values()}) == 1
    assert len({arm.hash for arm in arms.values()}) == len(ARMS)
    assert arms["plain"].model == before.model


def test_the_table_is_written_into_a_page(tmp_path):
    (tmp_path / "gpu.json").write_text(json.dumps(RESULT))
    page = tmp_path / "page.md"
    page.write_text("Before\n<!-- gpu -->\n<!-- end gpu -->\nafter")
    main(["page", str(tmp_path / "gpu.json"), str(page)])
    assert "| original | 94.5 ± 0.7 | 70.0 ± 0.0 | 50.0 ± 0.0 |" in page.read_text()
    assert "| plain, fine-tuned | 94.0 ± 0.0 | 72.0 ± 1.4 | 51.0 ± 1.4 |" in page.read_text()
    assert "40 epochs" in page.read_text()


def test_starts_have_a_row_for_each_conversion(tmp_path):
    rows = [
        {"layer": layer, "conversion": "default", "converted": 10.0, "calibrated": score}
        for layer, score in (("xcnorm", 80.04), ("r_xcnorm", 90.06))
    ]
    model = {"name": "wrn16_4", "layer": "conv", "options": {}}
    result = RESULT | {"rows": rows, "original": 95.0, "model": model}
    (tmp_path / "gpu.json").write_text(json.dumps(result))
    (tmp_path / "page.md").write_text("<!-- gpu --><!-- end gpu -->")
    starts(["page", str(tmp_path / "gpu.json"), str(tmp_path / "page.md")])
    assert "| default | 10.0 | 80.0 | 10.0 | 90.1 |" in (tmp_path / "page.md").read_text()
