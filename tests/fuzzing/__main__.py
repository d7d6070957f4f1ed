"""The long form: ``python -m tests.fuzzing FOLDER``, every entrance under a fuzzer that looks which lines it reaches.

It needs the package atheris. An entrance goes on after a crash and keeps one input of each kind, so that all are found
in one go. Each has a process of its own, as a crash of the interpreter is one to be counted; they are forked, as it is
the imports that take time.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
import traceback
from pathlib import Path
from random import Random

import atheris

with atheris.instrument_imports(include=["xcnorm", "tarfile", "zipfile", "pickle", "tomllib", "csv", "json"]):
    from tests.fuzzing.entrances import ENTRANCES
    from xcnorm.environment import environment

from tests.fuzzing.entrance import answer
from tests.fuzzing.structures import restructured

_MEMORY = Path("/dev/shm")  # where files are made and removed sooner than on a disk
_OPTIONS = ("-timeout=120", "-rss_limit_mb=6000", "-verbosity=0", "-max_len=65536", "-len_control=0")


def run(name: str, folder: Path, cases: int, seconds: int) -> None:
    """Fuzz an entrance, write what came of it into ``result.json``, and end the process."""
    inputs, crashes = folder / "inputs", folder / "crashes"
    for each in (inputs, crashes):
        each.mkdir(parents=True, exist_ok=True)
    log = os.open(folder / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    os.dup2(log, 1), os.dup2(log, 2)
    work = Path(tempfile.mkdtemp(prefix="xcnorm-fuzzing-", dir=_MEMORY if _MEMORY.is_dir() else None))
    entrance = ENTRANCES[name](work)
    for number, seed in enumerate(entrance.seeds):
        (inputs / f"seed{number}").write_bytes(seed)
    words = folder / "words.txt"
    spelt = ("".join(rf"\x{byte:02x}" for byte in token) for token in entrance.tokens)
    words.write_text("".join(f'"{word}"\n' for word in spelt))
    for seed in entrance.seeds:
        answer(entrance, seed)  # which also imports what is imported late
    result = {"what": name, "cases": 0, "refused": 0, "crashes": 0, "kinds": {}, "seconds": 0.0}
    begin = time.monotonic()

    def feed(data: bytes) -> None:
        result["cases"] += 1
        try:
            result["refused"] += answer(entrance, data) is not None
        except Exception as error:
            result["crashes"] += 1
            kind = kind_of(error)
            if kind not in result["kinds"]:
                result["kinds"][kind] = f"crash{len(result['kinds'])}"
                (crashes / result["kinds"][kind]).write_bytes(data)
        passed = time.monotonic() - begin
        # The fuzzer ends the process without coming back.
        if passed > result["seconds"] + 0.5 or result["cases"] >= cases or result["cases"] % 1000 == 0:
            result["seconds"] = round(passed, 1)
            (folder / "result.json").write_text(json.dumps(result, indent=1) + "\n")

    options = [*_OPTIONS, f"-runs={cases}", f"-max_total_time={seconds}", f"-artifact_prefix={crashes}/"]
    if entrance.tokens:
        options.append(f"-dict={words}")
    own = {"custom_mutator": _mutate} if entrance.structured else {}
    atheris.Setup([sys.argv[0], *options, str(inputs)], feed, **own)
    atheris.Fuzz()


def _mutate(data: bytes, most: int, seed: int) -> bytes:
    """Change bytes, or what they stand for."""
    random = Random(seed)
    if random.random() < 0.5:
        return atheris.Mutate(data, most)
    return restructured(data, random)[:most]


def kind_of(error: Exception) -> str:
    """The type of a crash and the line of ours that it came through last."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "/xcnorm/" in frame.filename]
    last = f" at {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else ""
    return f"{type(error).__name__}{last}: {str(error)[-300:]}" if not frames else f"{type(error).__name__}{last}"


def row(result: dict) -> dict[str, object]:
    """For the table."""
    return {
        "what reads": result["what"],
        "cases": result["cases"],
        "refused in a line": result.get("refused", 0),
        "crashes": result["crashes"],
    }


def fuzz(name: str, folder: Path, cases: int, seconds: int) -> dict[str, object]:
    """The same in a process of its own."""
    (folder / "result.json").unlink(missing_ok=True)
    child = os.fork()
    if child == 0:
        try:
            run(name, folder, cases, seconds)
        finally:
            traceback.print_exc()
            os._exit(1)
    _, status = os.waitpid(child, 0)
    found = folder / "result.json"
    result = json.loads(found.read_text()) if found.exists() else {"what": name, "cases": 0, "crashes": 0, "kinds": {}}
    if status:
        result["crashes"] += 1
        result["kinds"][f"the process ended with {os.waitstatus_to_exitcode(status)}"] = "log.txt"
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="where inputs are kept for the next time")
    parser.add_argument("--only", default="", help="entrances whose name has this in it")
    parser.add_argument("--cases", type=int, default=100_000, help="of each entrance")
    parser.add_argument("--seconds", type=int, default=600, help="of each entrance, if that comes first")
    parser.add_argument("--out", type=Path, help="JSON file to write")
    options = parser.parse_args()
    # Of what is loaded now: the files may change while it runs.
    begin, here, found = time.monotonic(), environment("cpu"), []
    for name in ENTRANCES:
        if options.only in name:
            found.append(fuzz(name, options.folder / name.replace(" ", "_"), options.cases, options.seconds))
            print(json.dumps(found[-1]), flush=True)
    if options.out is not None:
        seconds = round(time.monotonic() - begin)
        result = {"environment": here, "seconds": seconds, "rows": list(map(row, found))}
        options.out.parent.mkdir(parents=True, exist_ok=True)
        options.out.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    sys.exit(any(each["crashes"] for each in found))


if __name__ == "__main__":
    main()
