from xcnorm.errors import unknown_name


def test_a_near_miss_gets_a_suggestion():
    message = unknown_name("layer", "xcnrom", ["xcnorm", "r_xcnorm", "conv"])
    assert message == "unknown layer 'xcnrom'; did you mean 'xcnorm'? (known: 'conv', 'r_xcnorm', 'xcnorm')"


def test_a_far_miss_gets_the_list_only():
    assert unknown_name("layer", 7, ["xcnorm"]) == "unknown layer 7 (known: 'xcnorm')"


def test_an_empty_registry_is_said_to_be_empty():
    assert unknown_name("preset", "table3", []) == "unknown preset 'table3' (known: none)"


def test_of_many_names_the_nearest_are_shown():
    message = unknown_name("preset", "fig7", [f"fig{number:02}" for number in range(1, 31)])
    assert message.startswith("unknown preset 'fig7'; did you mean 'fig27'? (near: ")
    assert message.endswith("; 30 are known)")
    assert message.count("'fig") == 2 + 5
    assert "'fig07', 'fig17'" in message or "'fig17', 'fig07'" in message


def test_a_name_that_fills_the_screen_is_cut():
    message = unknown_name("model", "x" * 100_000, ["resnet18"])
    assert len(message) < 300
    assert message.endswith("(known: 'resnet18')")
