"""Archives of torch.export from strangers: whatever could run code in one is refused before torch sees it."""

import io
import json
import warnings
import zipfile

import pytest
import torch

from tests.auditing.small import Brightness
from xcnorm.auditing import open_model
from xcnorm.auditing.archive import plain_copy
from xcnorm.errors import UserError

CPU = torch.device("cpu")
GRAPH, WEIGHTS, CONSTANTS = (
    "models/model.json",
    "data/weights/model_weights_config.json",
    "data/constants/model_constants_config.json",
)
CODE, DAMAGED = "more than a graph and plain tensors", r"cannot be read as a file of torch\.export"


@pytest.fixture(scope="module")
def contents():
    """The records of a good file."""
    saved = io.BytesIO()
    torch.export.save(torch.export.export(Brightness().eval(), (torch.zeros(2, 3, 16, 16),)), saved)
    with zipfile.ZipFile(saved) as archive:
        return {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}


def write(path, records, **options):
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", **options) as archive:
        warnings.simplefilter("ignore")  # of names that are there twice
        for name, content in records:
            archive.writestr(f"network/{name}", content)
    return path


def assert_refused(path, words):
    with pytest.raises(UserError, match=words):
        open_model(path, CPU)


def replaced(contents, old, new):
    assert old in contents[GRAPH]
    return {GRAPH: contents[GRAPH].replace(old, new, 1)}


def in_graph(contents, change):
    graph = json.loads(contents[GRAPH])
    change(graph["graph_module"])
    return {GRAPH: json.dumps(graph).encode()}


def signature(**changes):
    return lambda module: module["module_call_graph"][0]["signature"].update(changes)


ENUM = [1, {"type": "builtins.tuple", "context": '[{"__enum__": true, "fqn": "antigravity:x"}]', "children_spec": []}]
FACTORY = [1, {"type": "collections.defaultdict", "context": {"default_factory_module": "os"}, "children_spec": []}]
PICKLED = b'{"config": {"x": {"path_name": "opaque_obj_0", "is_param": false, "use_pickle": true}}}'
MEAN = b'"torch.ops.aten.mean.dim"'
CHANGES = {
    "a pickled constant": lambda c: {CONSTANTS: PICKLED},
    "a pickled weight": lambda c: {WEIGHTS: c[WEIGHTS].replace(b'"use_pickle": false', b'"use_pickle": true')},
    "a weight elsewhere": lambda c: {WEIGHTS: c[WEIGHTS].replace(b'"weight_0"', b'"../../x"')},
    "weights of the older form": lambda c: {"data/weights/model.pt": b""},
    "compiled code": lambda c: {"data/aotinductor/model/a.so": b""},
    "a function of a module": lambda c: replaced(c, MEAN, b'"torch.os.system"'),
    "a function of a module, misspelt": lambda c: replaced(c, MEAN, b'"torchx.os.system"'),
    "a method of anything": lambda c: replaced(c, MEAN, b'"_operator.methodcaller"'),
    "an operator that writes files": lambda c: replaced(c, MEAN, b'"torch.ops.aten.from_file.default"'),
    "an operator of anybody's": lambda c: replaced(c, MEAN, b'"torch.ops.image.write_file.default"'),
    "a name that is code": lambda c: replaced(c, b'"name": "', b'"name": "x=print(1), '),
    "an argument that is code": lambda c: in_graph(c, signature(forward_arg_names=["x=print(1)"])),
    "nesting that imports": lambda c: in_graph(c, signature(in_spec=json.dumps(ENUM))),
    "nesting that calls": lambda c: in_graph(c, signature(out_spec=json.dumps(FACTORY))),
    "nesting in other letters": lambda c: in_graph(c, signature(in_spec=json.dumps(ENUM).replace("__e", "\\u005f_e"))),
    "a function as an argument": lambda c: in_graph(c, lambda m: m.update(inputs=[{"as_operator": "torch.os.system"}])),
    "a size that is code": lambda c: in_graph(c, lambda m: m.update(size={"as_expr": {"expr_str": "exec(chr(1))"}})),
    "a key that is code": lambda c: in_graph(c, lambda m: m.update({"x=print(1)": 1})),
}


@pytest.mark.parametrize("change", CHANGES)
def test_code_is_refused(change, contents, tmp_path):
    assert_refused(write(tmp_path / "x.pt2", (contents | CHANGES[change](contents)).items()), CODE)


@pytest.mark.parametrize("place", [0, None], ids=["first", "last"])
@pytest.mark.parametrize("name", [GRAPH, GRAPH.upper()])
def test_a_record_that_is_there_twice_is_refused(name, place, contents, tmp_path):
    records = list(contents.items())
    records.insert(
        len(records) if place is None else place, (name, contents[GRAPH].replace(MEAN, b'"torch.os.system"'))
    )
    assert_refused(write(tmp_path / "x.pt2", records), DAMAGED)


def test_the_older_form_is_refused_although_torch_reads_it(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.pt2", "w") as archive:
        archive.writestr("version", "8.8")
        archive.writestr("serialized_exported_program.json", '{"graph": {"expr_str": "exec(chr(1))"}}')
    assert_refused(tmp_path / "x.pt2", CODE)


def test_bombs_are_refused(contents, tmp_path):
    large = contents | {GRAPH: b" " * 10_000_000}
    assert_refused(write(tmp_path / "x.pt2", large.items(), compression=zipfile.ZIP_DEFLATED), DAMAGED)
    nested = contents | {GRAPH: b"[" * 100_000}
    assert_refused(write(tmp_path / "y.pt2", nested.items()), DAMAGED)


@pytest.mark.parametrize("content", [b"", b"no archive", b"PK\5\6" + bytes(18)])
def test_what_is_no_archive_is_told_in_one_line(content, tmp_path):
    (tmp_path / "x.pt2").write_bytes(content)
    assert_refused(tmp_path / "x.pt2", DAMAGED)


def test_what_is_said_of_the_origin_and_conditions_are_left_out(contents, tmp_path):
    graph = json.loads(contents[GRAPH]) | {"guards_code": ["print(1)"]}
    node = graph["graph_module"]["graph"]["nodes"][0]
    assert node["metadata"]
    node["metadata"]["stack_trace"] = "any text: (at all)"
    path = write(tmp_path / "x.pt2", (contents | {GRAPH: json.dumps(graph), "extra/notes": b"a text"}).items())
    with zipfile.ZipFile(plain_copy(path)) as copy:
        kept = json.loads(copy.read(f"network/{GRAPH}"))
        assert not any("extra" in name for name in copy.namelist())
    assert kept["guards_code"] == []
    assert kept["graph_module"]["graph"]["nodes"][0] == node | {"metadata": {}}
    assert open_model(path, CPU).pixels == 16


@pytest.mark.parametrize(
    ("expression", "plain"),
    [
        ("Symbol('s31', positive=True, integer=True)", True),
        ("Mul(Integer(-1), Pow(Symbol('u0', integer=True), Rational(1, 2)))", True),
        ("__import__('os')", False),
        ("S('exec')('x')", False),
        ("Symbol('s').free_symbols", False),
    ],
)
def test_sizes_are_expressions_and_no_code(expression, plain, contents, tmp_path):
    change = in_graph(contents, lambda module: module.update(size={"as_expr": {"expr_str": expression}}))
    path = write(tmp_path / "x.pt2", (contents | change).items())
    if plain:
        plain_copy(path)
    else:
        assert_refused(path, CODE)


@pytest.mark.parametrize("location", ["../weight.bin", "{folder}/weight.bin", "link.bin"])
def test_an_onnx_file_reads_nothing_outside_its_folder(location, tmp_path):
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxruntime")
    (tmp_path / "weight.bin").write_bytes(bytes(48))
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "link.bin").symlink_to(tmp_path / "weight.bin")
    weight = onnx.TensorProto(name="w", data_type=1, dims=[3, 4], data_location=onnx.TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location.format(folder=tmp_path))
    info = onnx.helper.make_tensor_value_info
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    graph = onnx.helper.make_graph(nodes, "g", [info("x", 1, [2, 3, 3, 3])], [info("y", 1, [2, 3, 3, 4])], [weight])
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 17)], ir_version=9)
    (tmp_path / "model" / "x.onnx").write_bytes(model.SerializeToString())
    with pytest.raises(UserError, match=r"cannot be read as an ONNX file: .*External data"):
        open_model(tmp_path / "model" / "x.onnx", CPU)
