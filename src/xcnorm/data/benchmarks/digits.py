"""Digits: learn handwritten MNIST digits, recognise digits of four other origins."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from xcnorm.data.card import Card
from xcnorm.data.catalogue import register_benchmark
from xcnorm.data.domain import Benchmark, Domain, LabelledImages, Targets
from xcnorm.data.download.remote import RemoteFile
from xcnorm.data.parts import Form, MissingPartError, Part
from xcnorm.data.readers import (
    read_idx,
    read_mat,
    read_mnist_m,
    read_mnist_m_keras,
    read_npz,
    read_usps_h5,
    read_usps_libsvm,
)
from xcnorm.data.synthesis import render_syn
from xcnorm.data.transforms import resize
from xcnorm.errors import UserError, unknown_name

_MNIST = ("https://ossci-datasets.s3.amazonaws.com/mnist/", "http://yann.lecun.com/exdb/mnist/")
_LIBSVM = "https://www.csie.ntu.edu.tw/~cjlin/libsvmtools/datasets/multiclass/"
_KERAS = "https://github.com/VanushVaswani/keras_mnistm/releases/download/1.0/"
_GANIN = "http://yaroslav.ganin.net"
_SYN_REMEDY = (
    f"open {_GANIN} in a browser, fetch SynthDigits.zip from the drive folder that it links, unzip it, and run: "
    "xcnorm data download digits --data {root} --from-folder FOLDER"
)
_MNIST_M_REMEDY = (
    f"open {_GANIN} in a browser, fetch mnist_m.tar.gz from the drive folder that it links, and run: "
    'xcnorm data download digits --data {root} --from-folder FOLDER (or use the option mnist_m="keras_10000")'
)


def _mnist_file(name: str, size: int, md5: str) -> RemoteFile:
    return RemoteFile(f"MNIST/raw/{name}", tuple(f"{mirror}{name}" for mirror in _MNIST), size=size, md5=md5)


CARD = Card(
    name="digits",
    title="Digits",
    summary="Learn the first 10,000 handwritten digits of MNIST; recognise house numbers (SVHN), digits blended into "
    "photographs (MNIST-M), rendered digits (SYN and our own syn_rendered) and zip codes (USPS).",
    classes=tuple("0123456789"),
    pixels=32,
    metric="accuracy",
    licence="MNIST: CC BY-SA 3.0. SVHN: non-commercial use only. MNIST-M, SYN, USPS: no licence stated.",
    citation="MNIST: LeCun et al. 1998; SVHN: Netzer et al. 2011; MNIST-M and SYN: Ganin and Lempitsky 2015; USPS: "
    "Hull 1994; protocol: Volpi et al. 2018.",
    files=(
        _mnist_file("train-images-idx3-ubyte.gz", 9912422, "f68b3c2dcbeaaa9fbdd348bbdeb94873"),
        _mnist_file("train-labels-idx1-ubyte.gz", 28881, "d53e105ee54ea40749a09fcbcd1e9432"),
        _mnist_file("t10k-images-idx3-ubyte.gz", 1648877, "9fb629c4189551a2d022fa330f9573f3"),
        _mnist_file("t10k-labels-idx1-ubyte.gz", 4542, "ec29112dd5afa0611ce80d1b7f02629c"),
        RemoteFile(
            "test_32x32.mat",
            ("http://ufldl.stanford.edu/housenumbers/test_32x32.mat",),
            size=64275384,
            md5="eb5a983be6a315427106f1b164d9cef3",
        ),
        RemoteFile("usps.t.bz2", (f"{_LIBSVM}usps.t.bz2",), md5="8ea070ee2aca1ac39742fdd1ef5ed118"),
        RemoteFile("keras_mnistm.pkl.gz", (f"{_KERAS}keras_mnistm.pkl.gz",)),
        RemoteFile("mnist_m.tar.gz", md5="859df31c91afe82e80e5012ba928f279", manual=_MNIST_M_REMEDY),
        RemoteFile("synth_test_32x32.mat", manual=_SYN_REMEDY),
    ),
)


def _mnist(prefix: str, count: int) -> tuple[Form, ...]:
    names = (f"MNIST/raw/{prefix}-images-idx3-ubyte", f"MNIST/raw/{prefix}-labels-idx1-ubyte")
    return (
        Form(tuple(f"{name}.gz" for name in names), read_idx, count=count),
        Form(names, read_idx, count=count),
    )


_TRAIN = Part(
    "MNIST (training)",
    (
        *_mnist("train", 60000),
        Form(("mnist_train.npz",), read_npz, count=60000),
        Form(("mnist_train10k.npz",), read_npz, count=10000),
    ),
    channels=1,
)
_TEST = Part("MNIST (test)", (*_mnist("t10k", 10000), Form(("mnist_test.npz",), read_npz, count=10000)), channels=1)
_SVHN = Part(
    "SVHN",
    (
        Form(("test_32x32.mat",), read_mat, count=26032),
        Form(("svhn_test.npz",), read_npz, count=26032),
        Form(("svhn_test_28x28.npz",), read_npz, note="28-pixel copy, upsampled", count=26032),
    ),
    target=True,
)
_MNIST_M = Part(
    "MNIST-M",
    (
        Form(("mnist_m",), read_mnist_m, count=9001),
        Form(("mnist_m.tar.gz",), read_mnist_m, count=9001),
        Form(("mnist_m_test.npz",), read_npz, count=9001),
    ),
    remedy=_MNIST_M_REMEDY,
    target=True,
)
_SYN = Part(
    "SYN",
    (Form(("synth_test_32x32.mat",), read_mat, count=9553), Form(("syn_test.npz",), read_npz, count=9553)),
    remedy=_SYN_REMEDY,
    target=True,
)
_USPS = Part(
    "USPS",
    (
        Form(("usps.t.bz2",), read_usps_libsvm, count=2007),
        Form(("usps_test.npz",), read_npz, count=2007),
        Form(("usps.h5",), read_usps_h5, count=2007),
    ),
    target=True,
    channels=1,
)


def _keras_mnist_m(labels: Tensor) -> Part:
    """The later MNIST-M, whose file has no labels of its own: they are those of MNIST's test set."""
    read = partial(read_mnist_m_keras, labels=labels)
    return Part("MNIST-M (keras)", (Form(("keras_mnistm.pkl.gz",), read, count=10000),), target=True)


_SUBSETS = {"first_10000": (0, 10000), "tf_5000_15000": (5000, 15000)}
_RENDERED = 9553  # as many as SYN has


@register_benchmark(
    CARD, parts=(_TRAIN, _TEST, _SVHN, _MNIST_M, _keras_mnist_m(torch.zeros(10000, dtype=torch.int64)), _SYN, _USPS)
)
def load(root: Path, *, subset: str = "first_10000", mnist_m: str = "original_9001") -> Benchmark:
    """Load MNIST as the source and whatever targets are there.

    Args:
        root: The folder that holds the data.
        subset: Which training images of MNIST: ``"first_10000"``, or ``"tf_5000_15000"`` for those that ADA and M-ADA
            saw (an old reader put the first 5,000 aside).
        mnist_m: ``"original_9001"`` for the test set as first published, ``"keras_10000"`` for the one made later that
            RandConv and others used.
    """
    if subset not in _SUBSETS:
        raise UserError(unknown_name("subset", subset, _SUBSETS))
    if mnist_m not in ("original_9001", "keras_10000"):
        raise UserError(unknown_name("mnist_m", mnist_m, ("original_9001", "keras_10000")))
    digits, _ = _TRAIN.read(root, CARD.name)
    test, _ = _TEST.read(root, CARD.name)
    start, stop = _SUBSETS[subset]
    if len(digits.labels) < stop:
        raise UserError(
            f"subset {subset!r} needs all 60,000 training images of MNIST, but {root} holds the first "
            f"{len(digits.labels):,}; fetch them with: xcnorm data download digits --data {root}"
        )
    parts = {"svhn": _SVHN, "mnist_m": _MNIST_M, "syn": _SYN, "usps": _USPS}
    if mnist_m == "keras_10000":
        parts["mnist_m"] = _keras_mnist_m(test.labels)
    makers = {name: partial(_read, name, part, root) for name, part in parts.items()}
    targets, missing = make_all(makers | {"syn_rendered": partial(rendered, _RENDERED)})
    return Benchmark(
        CARD,
        CARD.title,
        CARD.classes,
        train=at_32_pixels("mnist", LabelledImages(*(tensor[start:stop] for tensor in digits))),
        validation=at_32_pixels("mnist", test),
        targets=targets,
        missing=missing,
    )


def make_all(makers: Mapping[str, Callable[[], Domain]]) -> tuple[Targets, dict[str, str]]:
    """The targets that can be had, and for each other one what is missing."""
    domains: dict[str, Domain] = {}
    missing = {}
    with ThreadPoolExecutor(len(makers)) as pool:  # unpacking and decoding take most of the time, and go in parallel
        made = {name: pool.submit(make) for name, make in makers.items()}
    for name, target in made.items():
        try:
            domains[name] = target.result()
        except MissingPartError as error:
            missing[name] = str(error)
    return Targets(domains), missing


def rendered(count: int) -> Domain:
    """Digits that we render, as evenly spread over the classes as can be."""
    labels = torch.arange(count) % 10
    return Domain("syn_rendered", render_syn(labels, pixels=CARD.pixels), labels, "rendered by xcnorm")


def at_32_pixels(name: str, data: LabelledImages, note: str = "") -> Domain:
    """A domain of digits of any size."""
    return Domain(name, resize(data.images, CARD.pixels), data.labels, note)


def _read(name: str, part: Part, root: Path) -> Domain:
    data, note = part.read(root, CARD.name)
    return at_32_pixels(name, data, note)
