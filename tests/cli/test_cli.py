import os
import subprocess
import sys
from pathlib import Path
from textwrap import dedent

import pytest

import xcnorm.cli
from xcnorm.cli import main


@pytest.fixture
def add_command(tmp_path, monkeypatch):
    """Add a command the way a developer does: one file in the folder of commands."""
    monkeypatch.setattr(xcnorm.cli, "__path__", [*xcnorm.cli.__path__, str(tmp_path)])
    added = []

    def add(name: str, body: str, head: str = "") -> None:
        (tmp_path / f"{name}.py").write_text(f"{dedent(head)}\ndef command():\n    'Help.'\n    {body}\n")
        added.append(name)

    yield add
    for name in added:
        sys.modules.pop(f"xcnorm.cli.{name}", None)
        if hasattr(xcnorm.cli, name):
            delattr(xcnorm.cli, name)


def run(*args: str, **options) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "xcnorm", *args], text=True, **options)


def one_line(capsys) -> str:
    """The only line on stderr."""
    captured = capsys.readouterr()
    assert captured.out == ""
    lines: list[str] = captured.err.splitlines()
    assert len(lines) == 1
    return lines[0]


@pytest.mark.parametrize("args", [[], ["--help"], ["-h"]])
def test_help_lists_every_command(args, capsys):
    assert main(args) == 0
    out = capsys.readouterr().out
    for module in Path(xcnorm.cli.__file__).parent.glob("[!_]*.py"):
        assert f" {module.stem} " in out


def test_help_does_not_load_torch():
    code = "import sys, xcnorm.cli; assert xcnorm.cli.main(['--help']) == 0; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"xcnorm {xcnorm.__version__}\n"


def test_python_m_is_the_same_program():
    assert run("--version", capture_output=True).stdout == f"xcnorm {xcnorm.__version__}\n"
    assert run("dctor", capture_output=True).returncode == 2


@pytest.mark.parametrize(
    ("args", "line"),
    [
        (["dctor"], "xcnorm: no such command 'dctor'; did you mean 'doctor'? (see xcnorm --help)"),
        (["zzz"], "xcnorm: no such command 'zzz' (see xcnorm --help)"),
        (["--vrsion"], "xcnorm: no such option: --vrsion (Possible options: --version) (see xcnorm --help)"),
        (["doctor", "--yaml"], "xcnorm: no such option: --yaml (see xcnorm doctor --help)"),
        (["demo", "--out"], "xcnorm: option '--out' requires an argument (see xcnorm --help)"),
    ],
)
def test_a_usage_error_is_one_line_and_exits_with_2(args, line, capsys):
    assert main(args) == 2
    assert one_line(capsys) == line


@pytest.mark.parametrize("args", ["demo --seed many", "demo --iterations 0", "doctor extra"])
def test_a_bad_value_is_one_line_that_says_where(args, capsys):
    assert main(args.split()) == 2
    assert args.split()[1] in one_line(capsys)


def test_a_command_is_one_file(add_command, capsys):
    add_command("say_hello", "print('hello')")
    add_command("_common", "print('not a command')")
    assert main(["say-hello"]) == 0
    assert capsys.readouterr().out == "hello\n"
    assert main(["_common"]) == 2


def test_a_command_may_have_another_name_than_its_file(add_command, capsys):
    add_command("lambda_", "print('hello')", head="NAME = 'lambda'")
    assert main(["lambda"]) == 0
    assert capsys.readouterr().out == "hello\n"


@pytest.mark.parametrize("code", [0, 1, 2])
def test_a_command_decides_its_exit_code(code, add_command):
    add_command("finish", f"return {code}")
    assert main(["finish"]) == code


def test_what_the_user_must_fix_is_one_line_and_exits_with_2(add_command, capsys):
    head = "from xcnorm.errors import UserError"
    add_command("fail", "raise UserError('no data:\\n  download it')", head)
    assert main(["fail"]) == 2
    assert one_line(capsys) == "xcnorm: no data: download it"


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("open('no/such/file')", "No such file or directory: no/such/file"),
        ("import os; os.mkdir(__file__ + '/runs')", "Not a directory: {folder}/fail.py/runs"),
        ("raise PermissionError(13, 'Permission denied', 'runs')", "Permission denied: runs"),
        ("raise OSError(28, 'No space left on device')", "No space left on device"),
        ("raise TimeoutError('the host does not answer')", "the host does not answer"),
    ],
)
def test_an_error_of_the_system_is_one_line_and_exits_with_2(body, message, add_command, tmp_path, capsys):
    add_command("fail", body)
    assert main(["fail"]) == 2
    assert one_line(capsys) == f"xcnorm: {message.format(folder=tmp_path)}"


def test_a_bug_is_one_line_and_exits_with_1(add_command, capsys):
    add_command("fail", "raise ValueError('first\\nsecond')")
    assert main(["fail"]) == 1
    line = one_line(capsys)
    assert line.startswith("xcnorm: internal error: ValueError: first second (")
    assert "XCNORM_TRACEBACK=1" in line


@pytest.mark.parametrize(("args", "variable"), [(["--traceback"], ""), ([], "1")])
def test_the_traceback_of_a_bug_is_shown_on_demand(args, variable, add_command, monkeypatch, capsys):
    monkeypatch.setenv("XCNORM_TRACEBACK", variable)
    add_command("fail", "raise ValueError('first')")
    assert main([*args, "fail"]) == 1
    lines = capsys.readouterr().err.splitlines()
    assert lines[0].startswith("Traceback")
    assert lines[-1] == "xcnorm: internal error: ValueError: first"


def test_an_interrupt_exits_with_130(add_command, capsys):
    add_command("wait", "raise KeyboardInterrupt")
    assert main(["wait"]) == 130
    assert one_line(capsys) == "xcnorm: interrupted"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no device that is always full")
@pytest.mark.parametrize("args", [["--version"], ["--help"]])
def test_output_to_a_full_disk_is_one_line_and_exits_with_2(args):
    with Path("/dev/full").open("w") as full:
        result = run(*args, stdout=full, stderr=subprocess.PIPE)
    assert (result.returncode, result.stderr) == (2, "xcnorm: No space left on device\n")


def test_a_reader_that_leaves_early_is_no_error():
    process = subprocess.Popen(
        [sys.executable, "-m", "xcnorm", "--help"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert process.stdout
    process.stdout.close()
    _, complaint = process.communicate()
    assert complaint == ""


def test_the_shell_can_complete_commands():
    request = {"_XCNORM_COMPLETE": "complete_bash", "COMP_WORDS": "xcnorm d", "COMP_CWORD": "1"}
    result = run(env=os.environ | request, capture_output=True)
    assert sorted(result.stdout.split()) == ["data", "demo", "doctor"]


def test_a_name_gives_the_terminal_no_orders(capsys):
    assert main(["evaluate", "no\x1b]0;run\x07\x1b[2J"]) == 2
    complaint = capsys.readouterr().err
    assert "\x1b" not in complaint
    assert "\x07" not in complaint
    assert "no�]0;run" in complaint
