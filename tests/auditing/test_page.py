"""The page, the verdict, the gates and the JUnit file of an audit."""

import json
from dataclasses import replace
from xml.etree import ElementTree

import pytest

import xcnorm
from tests.accessibility import everywhere
from tests.auditing.small import CLASSES, TYPES, Brightness, folder
from tests.report.browser import Browser, find_chromium
from tests.report.test_html import Page
from xcnorm.auditing import check, junit, load_audit, verdict
from xcnorm.auditing.page import page
from xcnorm.errors import UserError

HOSTILE = dict(zip(CLASSES, ('a"onerror=alert(1) x=', "b<script>alert(1)<!--", "c\x1b[2J&amp;'"), strict=True))

pytestmark = pytest.mark.xdist_group("report_html")


@pytest.fixture(scope="module")
def audit(tmp_path_factory):
    root = folder(tmp_path_factory.mktemp("audit") / "<i>pictures", names=HOSTILE)
    for path in root.glob("c*/*.png"):
        path.rename(path.with_name(f"<img src=x onerror=alert(2)>{path.name}"))
    models = [Brightness(), Brightness()]
    models[1].scale.data.fill_(1.0)
    return xcnorm.audit(models, root, corruptions=",".join(TYPES), mean=0.5, std=0.5, device="cpu")


@pytest.fixture(scope="module")
def text(audit):
    return page(audit)


def test_the_page_is_well_formed_and_stands_alone(text):
    found = Page(text)
    assert found.open == []
    links = [value for _, attrs in found.found for name, value in attrs.items() if name in ("src", "href")]
    assert all(link.startswith(("#", "data:")) for link in links)
    names = [attrs["id"] for _, attrs in found.found if "id" in attrs]
    assert len(names) == len(set(names))
    pictures = [attrs for tag, attrs in found.found if tag == "img"]
    assert len(pictures) == 2 * 2 * 8
    assert all(attrs["alt"] and attrs["src"].startswith("data:image/png;base64,") for attrs in pictures)


def test_hostile_names_are_words_and_nothing_else(text, audit):
    found = Page(text)
    assert sum(tag == "script" for tag, _ in found.found) == 1 + 4  # the page's own, and the values of four charts
    assert {name for _, attrs in found.found for name in attrs if name.startswith("on")} == set()
    words = " ".join(found.words)
    for name in (*(scored.name for scored in audit.models[0].classes), "<i>pictures"):
        assert name in words
    assert "\x1b" not in text


def test_the_page_says_everything(text, audit):
    words = " ".join(" ".join(Page(text).words).split())
    assert "Audit of 2 models" in words
    assert "24 pictures of 16x16 pixels" in words
    assert "as strong as in CIFAR-10-C; seed 0" in words
    assert "2 chosen corruptions: gaussian_noise, fog" in words
    for model in audit.models:
        assert verdict(audit, model) in words
        for value in (*model.accuracies.values(), model.corrupted, model.drop):
            assert f"{100 * value:.2f}" in words


def test_a_saved_audit_makes_the_same_page(text, audit, tmp_path):
    audit.save(tmp_path / "audit.json")
    load_audit(tmp_path / "audit.json").save(tmp_path / "audit.html")
    assert (tmp_path / "audit.html").read_text() == text


@pytest.mark.skipif(find_chromium() is None, reason="there is no browser")
def test_in_a_browser_nothing_is_loaded_and_nothing_runs_that_should_not(text, tmp_path):
    (tmp_path / "audit.html").write_text(text)
    with Browser(find_chromium() or "", tmp_path / "profile") as browser:
        browser.open(tmp_path / "audit.html")
        assert browser.complaints == []
        assert all(url.startswith(("file:", "data:")) for url in browser.requests)
        assert browser.evaluate("[...document.images].every(i => i.complete && i.naturalWidth === 16)")
        assert browser.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert everywhere(browser) == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda values: values.pop("seed"),
        lambda values: values.update(count="many"),
        lambda values: values.update(size=[16, "x"]),
        lambda values: values.update(models=[]),
        lambda values: values["models"][0]["cells"].popitem(),
        lambda values: values["models"][0]["cells"]["fog/1"].update(accuracy="high"),
        lambda values: values["models"][0]["cells"]["fog/1"].update(surplus=1),
        lambda values: values["models"][0]["robustness"].update(fog=None),
        lambda values: values["models"][0].update(notes=[3]),
        lambda values: values["models"][0].update(mce="1"),
    ],
)
def test_an_audit_with_something_else_in_it_is_not_loaded(damage, audit, tmp_path):
    values = audit.to_dict()
    damage(values)
    (tmp_path / "audit.json").write_text(json.dumps(values))
    with pytest.raises(UserError, match="is no audit of this version"):
        load_audit(tmp_path / "audit.json")


def test_an_audit_with_a_corruption_that_is_not_known_here_is_not_loaded(audit, tmp_path):
    (tmp_path / "audit.json").write_text(audit.to_json().replace("fog", "smog"))
    with pytest.raises(UserError, match="the corruption 'smog', which is not known here; load its plugin"):
        load_audit(tmp_path / "audit.json")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("[" * 100_000, "is no saved audit"),
        ("no json", "is no saved audit"),
        ("[]", "is no audit of this version"),
        ('{"kind": "audit"}', "is no audit"),
    ],
)
def test_what_is_no_audit_is_not_loaded(content, words, tmp_path):
    (tmp_path / "audit.json").write_text(content)
    with pytest.raises(UserError, match=words):
        load_audit(tmp_path / "audit.json")
    with pytest.raises(UserError, match="cannot read"):
        load_audit(tmp_path / "absent.json")


def test_a_verdict_names_numbers_and_the_weakest_category(audit):
    model = audit.models[0]
    said = verdict(audit, model)
    assert f"{100 * model.clean.accuracy:.1f} % of 24 clean pictures" in said
    worst = min(model.by_corruption, key=lambda name: model.by_corruption[name])
    assert f"worst under {worst.replace('_', ' ')} ({100 * model.by_corruption[worst]:.1f} %)" in said
    sure = replace(model, cells={n: replace(s, confidence=1.0) for n, s in model.cells.items()})
    unsure = replace(model, cells={n: replace(s, confidence=0.1) for n, s in model.cells.items()})
    assert "too sure of itself" in verdict(audit, sure)
    assert "less sure than it could be" in verdict(audit, unsure)


def test_thresholds_are_met_at_the_number_itself(audit):
    (first, second) = audit.models
    assert not any(one.failure for one in check(audit, 100 * min(first.corrupted, second.corrupted), 100))
    failed = check(audit, 100 * first.corrupted + 0.01)
    assert failed[0].failure.startswith(f"accuracy under corruptions is {100 * first.corrupted:.2f} %, less than")
    assert check(audit, max_drop=100 * first.drop - 0.01)[0].failure.startswith("corruptions cost")
    assert check(audit) == []


def test_junit_has_a_suite_for_each_model_and_a_case_for_each_threshold(audit):
    root = ElementTree.fromstring(junit(audit, check(audit, 100, 100)))
    assert [suite.get("name") for suite in root] == ["Brightness", "Brightness (2)"]
    for suite, model in zip(root, audit.models, strict=True):
        assert (suite.get("tests"), suite.get("failures")) == ("2", "1")
        assert [case.find("failure") is not None for case in suite.iter("testcase")] == [True, False]
        numbers = {prop.get("name"): prop.get("value") for prop in suite.iter("property")}
        assert numbers["accuracy.corrupted"] == f"{100 * model.corrupted:.2f}"
    assert [case.get("name") for case in ElementTree.fromstring(junit(audit, [])).iter("testcase")] == [
        "was audited"
    ] * 2
