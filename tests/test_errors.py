from xcnorm.errors import unknown_name


def test_a_near_miss_gets_a_suggestion():
    message = unknown_name("layer", "xcnrom", ["xcnorm", "r_xcnorm", "conv"])
    assert message == "unknown layer 'xcnrom'; did you mean 'xcnorm'? (known: 'conv', 'r_xcnorm', 'xcnorm')"


def test_a_far_miss_gets_the_list_only():
    assert unknown_name("layer", 7, ["xcnorm"]) == "unknown layer 7 (known: 'xcnorm')"


def test_an_empty_registry_is_said_to_be_empty():
    assert unknown_name("preset", "table3", []) == "unknown preset 'table3' (known: none)"
